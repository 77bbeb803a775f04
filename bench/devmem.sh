# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# What bench/devmem runs inside the lab's VM: one connection from the near NIC to the far one, by weir or by
# kperf, with what is said below the same for both. bench/devmem appends one function per repetition:
#
#	test_mtu_9000_rx_validated_1() {
#		compare 9000 rx yes 1 weir kperf
#	}
#
# and reads the lines that begin with "figure".

buffer=65536   # bytes per call: kperf's default
memory_mib=128 # device memory at each end: kperf's default
# kperf's hello of 20 bytes comes after its steering rules, and it reads it as ordinary data: until data flows the
# NIC leaves so few bytes with the headers.
nic_parameters="queues=4 copybreak=32"

fresh_nics() {
	# shellcheck disable=SC2086 # words
	lab_up $nic_parameters
	mtu "$1"
	# weir switches header split and hardware GRO on where it receives into device memory; kperf does not.
	quietly far weir nic prepare lab1
	echo 256 >/sys/module/udmabuf/parameters/size_limit_mb
	rm -f /tmp/window
	counters_begin
}

# Seconds of uptime and of idleness. No process is begun for it: that would be measured too.
snapshot() {
	read -r up idle </proc/uptime
}

flowing() {
	local bytes
	[ -e /sys/class/net/lab0 ] || return 1
	read -r bytes </sys/class/net/lab0/statistics/tx_bytes
	[ "$bytes" -gt 60000 ]
}

# Which share of half a second of the run the CPU was idle.
window() {
	local tries=1000 before up idle
	until flowing; do
		usleep 20000
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
	done
	fault copybreak 0 # kperf gives up when such a packet comes among its data
	snapshot
	before="$up $idle"
	usleep 500000
	snapshot
	echo "$before $up $idle" | awk '{ printf "%.4f\n", ($4 - $2) / ($3 - $1) }' >/tmp/window
}

# path_used PATH: whether the bytes went the way that was asked for, as the NIC counted them
path_used() {
	counters_end
	case $1 in
	rx) at_least "$enough" far rx_devmem_bytes && equals 0 far from_devmem_bytes ;;
	tx) equals 0 far rx_devmem_bytes && at_least "$enough" far from_devmem_bytes ;;
	both) at_least "$enough" far rx_devmem_bytes && at_least "$enough" far from_devmem_bytes ;;
	esac
}

# run_TOOL PATH VALIDATE prints bits/s as its receiver saw them
run_weir() {
	local receive="" send="" status=0
	device="--mem udmabuf --path devmem --mem-size ${memory_mib}M"
	case $1 in rx | both) receive="$device --queues 3" ;; esac
	case $1 in tx | both) send=$device ;; esac
	[ "$2" = no ] || send="$send --validate"
	# shellcheck disable=SC2086
	nsenter -t "$(cat "$far_pid_file")" -n -m weir stream --once --format kv $receive \
		--out /tmp/server.json >/tmp/server 2>&1 &
	server=$!
	eventually listening || return 1
	# shellcheck disable=SC2086
	weir stream -c -H "$far4" -l "$seconds" --warmup 0 -B $buffer $send \
		--out /tmp/client.json >/tmp/client 2>&1 || status=$?
	trusted client $status || return 1
	status=0
	wait $server || status=$?
	trusted server $status || return 1
	sed -n 's/^local_throughput=//p' /tmp/server
}

# The same by kperf. Its exit status says nothing, its Rx line does; a wrong byte is a line of its own.
run_kperf() {
	local modes=""
	case $1 in rx | both) modes="--devmem-rx --dmabuf-rx-size-mb $memory_mib" ;; esac
	# Its pattern is 128 MiB and 256 bytes.
	case $1 in tx | both) modes="$modes --devmem-tx --dmabuf-tx-size-mb $((memory_mib + 2))" ;; esac
	far server --no-daemon -a "$far4" >/tmp/far.words 2>&1 &
	server --no-daemon -a "$near4" >/tmp/near.words 2>&1 &
	eventually listening && eventually near_listens || return 1
	# shellcheck disable=SC2086
	timeout $((seconds + 15)) client --src "$near4" --dst "$far4" -t "$seconds" --read-size $buffer --write-size $buffer \
		$modes --validate "$2" >/tmp/client 2>&1 || true
	if grep -qiE 'corruption|failed' /tmp/far.words /tmp/near.words /tmp/client; then
		cat /tmp/far.words /tmp/near.words /tmp/client
		return 1
	fi
	sed -n '/== Target/,$s/.* Rx .*(\([0-9]*\) bytes in \([0-9]*\) usec)/\1 \2/p' /tmp/client |
		awk '$2 { printf "%.0f\n", $1 * 8e6 / $2 }'
}

near_listens() {
	grep -q '^ *[0-9]*: [^ ]* [^ ]* 0A ' /proc/net/tcp /proc/net/tcp6
}

# Ends what a tool left running, and takes the NICs away: last, for a kernel of today does not outlive it when a
# binding of the sender is still there.
leave() {
	for process in $(pidof server client weir) "$(cat "$far_pid_file")"; do
		kill -9 "$process" 2>/dev/null || true
	done
	eventually nothing_runs
	eventually rmmod labnic
	rm -rf /run/*
}

nothing_runs() {
	! pidof server client weir >/dev/null && [ ! -e "/proc/$(cat "$far_pid_file")" ]
}

# once TOOL MTU PATH VALIDATE: sets bits; /tmp/words says why not
once() {
	fresh_nics "$2"
	window &
	measured=$!
	"run_$1" "$3" "$4" >/tmp/words || true
	if ! bits=$(grep -xE '[0-9]+' /tmp/words); then
		kill $measured 2>/dev/null || true
		return 1
	fi
	wait $measured && path_used "$3"
}

# compare MTU PATH VALIDATE REPETITION TOOL...
compare() {
	local mtu_bytes=$1 path=$2 validate=$3 repetition=$4 tool tries
	enough=$((seconds * 10000000))
	shift 4
	for tool; do
		tries=3 # kperf's hello is lost now and then
		until once "$tool" "$mtu_bytes" "$path" "$validate"; do
			cat /tmp/words
			echo "$tool gave no figure"
			leave
			tries=$((tries - 1))
			[ $tries -gt 0 ] || return 1
		done
		echo "figure mtu=$mtu_bytes path=$path validate=$validate repetition=$repetition tool=$tool" \
			"bits_per_s=$bits idle=$(cat /tmp/window)"
		leave
	done
}
