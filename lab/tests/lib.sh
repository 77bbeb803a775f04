# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash
#
# What tests inside the VM are made of. A test is a function test_BEHAVIOUR in a script of this folder. It
# fails when one of its commands fails (set -e), and is skipped by skip REASON:
#
#	test_plain_tcp_uses_no_device_memory() {
#		lab_up
#		serve stream
#		measure stream -H "$far4" -l 1
#		at_least 1000000 far rx_page_bytes
#		equals 0 far rx_devmem_bytes
#	}

near4=10.9.0.1 far4=10.9.0.2 near6=fd09::1 far6=fd09::2
near_nics=lab0 far_nics=lab1
far_pid_file=/tmp/far.pid
test_seconds=60 # a script may have a line of its own
# In the kernel's log this is never harmless.
trouble='WARNING:|BUG|Oops|general protection|Call Trace|page_pool_release_retry|waiting for .* to become free'

# The two NICs: lab0 here, lab1 in a network namespace of its own. Arguments are the module's parameters.
lab_up() {
	rmmod labnic 2>/dev/null || true # a person's
	insmod /lab/labnic.ko "$@"
	rm -f "$far_pid_file" /tmp/far.up
	unshare -n -m sh -ec ". /lab/lib.sh; far_begin" &
	eventually [ -s "$far_pid_file" ]
	ip link set lab1 netns "$(cat "$far_pid_file")"
	echo 0 >/proc/sys/net/ipv6/conf/lab0/accept_dad
	ip address add $near4/24 dev lab0
	ip address add $near6/64 dev lab0
	ip link set lab0 up
	eventually [ -e /tmp/far.up ]
}

# The other end is a host of its own in all but /tmp: its /sys shows its NIC only.
far_begin() {
	mount -t sysfs sys /sys
	mount -t tmpfs run /run
	ip link set lo up
	echo $$ >"$far_pid_file"
	eventually [ -e /proc/sys/net/ipv6/conf/lab1/accept_dad ]
	echo 0 >/proc/sys/net/ipv6/conf/lab1/accept_dad
	ip address add $far4/24 dev lab1
	ip address add $far6/64 dev lab1
	ip link set lab1 up
	: >/tmp/far.up
	exec sleep 100000
}

# Runs a command at the other end.
far() {
	nsenter -t "$(cat "$far_pid_file")" -n -m "$@"
}

mtu() {
	ip link set lab0 mtu "$1"
	far ip link set lab1 mtu "$1"
}

# fault drop_every 200
fault() {
	echo "$2" >"/sys/module/labnic/parameters/$1"
}

skip() {
	echo "$*" >/tmp/skipped
	exit 77
}

# Repeats a command until it succeeds, for five seconds.
eventually() {
	local tries=100
	until "$@"; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || return 1
		usleep 50000
	done
}

# Starts a weir server at the other end and waits until it listens: serve stream --mem udmabuf. $server is
# its process.
serve() {
	rm -f /tmp/server.json
	nsenter -t "$(cat "$far_pid_file")" -n -m weir "$@" --once --out /tmp/server.json >/tmp/server 2>&1 &
	server=$!
	eventually listening && return
	echo "the server does not listen:"
	cat /tmp/server
	return 1
}

# The process of the server at the far end.
server_pid() {
	for p in /proc/[0-9]*; do
		case "$(tr '\0' ' ' 2>/dev/null <"$p/cmdline")" in
		"weir stream -"[!c]*) echo "${p#/proc/}" && return ;;
		esac
	done
	return 1
}

# Somebody at the other end: 0A is LISTEN.
listening() {
	far cat /proc/net/tcp /proc/net/tcp6 | grep -q '^ *[0-9]*: [^ ]* [^ ]* 0A '
}

# Runs the client to the end, and waits for the server's: measure stream -H "$far4". The records of both are
# in /tmp/client.json and /tmp/server.json; what the NICs counted meanwhile say grown, equals, at_least ...
measure() {
	local status=0
	counters_begin
	rm -f /tmp/client.json
	weir "$@" -c --out /tmp/client.json >/tmp/client 2>&1 || status=$?
	trusted client $status || return 1
	status=0
	wait "$server" || status=$?
	trusted server $status || return 1
	counters_end
}

p2p_devmem="--mem udmabuf --path devmem --pool 8M"

# weir p2p with device memory. What a sender can: Linux 6.12 does not send from device memory.
p2p_sender() {
	if kernel_at_least 6.16; then echo "$p2p_devmem"; else echo "--mem udmabuf --pool 8M"; fi
}

p2p_linked() {
	[ "$(cat /sys/class/net/lab0/operstate)" = up ] && [ "$(far cat /sys/class/net/lab1/operstate)" = up ]
}

p2p_listen() {
	eventually p2p_linked
	nsenter -t "$(cat "$far_pid_file")" -n -m weir p2p server 0 "$@" >/tmp/server 2>&1 &
	server=$!
	eventually listening && return
	cat /tmp/server
	return 1
}

# A client's run of weir p2p to its end: both ends are in /tmp/client.json. Status 3: the ends' rates differ, as they do in so short a
# time; what was wrong is 1.
p2p_move() {
	local status=0
	counters_begin
	weir p2p client "$far4" 0 --quiet -w 0 --out /tmp/client.json "$@" >/tmp/client 2>&1 || status=$?
	counters_end
	[ $status -eq 0 ] || [ $status -eq 3 ] || { cat /tmp/client /tmp/server && return 1; }
	says client '"checked":[1-9]'
	says client '"wrong":0.*"wrong":0'
}

# p2p_went BYTES: so many came into device memory at the far end, nothing beside it, and from device memory where that can be.
p2p_went() {
	says client "\"remote\":.*\"path\":.\"rx\":\"devmem\",\"tx\":\"none\",\"reason\":null,\"rx_devmem_bytes\":$1,\"rx_linear_bytes\":0,\"rx_plain_bytes\":0,"
	at_least "$1" far rx_devmem_bytes
	if kernel_at_least 6.16; then
		says client "\"local\":.*\"tx\":\"devmem\",\"reason\":null,.*\"tx_devmem_bytes\":$1.,.*\"remote\""
		at_least "$1" far from_devmem_bytes
	else
		says client '"tx":"staged","reason":"[^"]*this kernel cannot send from device memory"'
	fi
}

# pid_of "weir p2p server ": the process whose words begin so, at either end.
pid_of() {
	for p in /proc/[0-9]*; do
		case "$(tr '\0' ' ' 2>/dev/null <"$p/cmdline")" in
		"$1"*) echo "${p#/proc/}" && return ;;
		esac
	done
	return 1
}

p2p_under_way() {
	ethstat lab0 >/tmp/near.after
	[ "$(grown near tx_bytes)" -gt 100000 ]
}

# p2p_kill server|client: in the middle of a run. Neither end hangs, the one that is left says so, the NIC is put back.
p2p_kill() {
	local status=0
	nics >/tmp/nics.before
	# shellcheck disable=SC2086 # words
	p2p_listen $p2p_devmem --once --peer-timeout 3s
	counters_begin
	# shellcheck disable=SC2046
	weir p2p client "$far4" 0 --quiet $(p2p_sender) --size 256K -n 10000 -c 1 --peer-timeout 3s >/tmp/client 2>&1 &
	client=$!
	eventually p2p_under_way
	kill -9 "$(pid_of "weir p2p $1 ")"
	wait $client || status=$?
	[ $status -ne 0 ]
	status=0
	wait "$server" || status=$?
	[ $status -ne 0 ]
	unchanged
}

# An emulated CPU has no steady rate, and socket buffers weigh much in a second of it: weir may doubt these
# and nothing else.
trusted() {
	[ "$2" -eq 0 ] && return
	if [ "$2" -eq 3 ] && ! sed 's/.*"findings":\[//' "/tmp/$1.json" | tr '{' '\n' |
		grep -E '"severity":"(failed|invalid)"' | grep -qvE '"name":"(not_steady|ends_disagree)"'; then
		return
	fi
	echo "the $1 ended with status $2:"
	cat "/tmp/$1"
	return 1
}

# says client|server PATTERN: whether that end's record holds it.
says() {
	grep -qE "$2" "/tmp/$1.json" && return
	echo "the record of the $1 does not say $2; it printed:"
	cat "/tmp/$1"
	return 1
}

# Runs a command, shows its words only if it fails.
quietly() {
	"$@" >/tmp/quietly 2>&1 && return
	echo "failed: $*"
	cat /tmp/quietly
	return 1
}

# The NICs' own counters, for what is not measured by measure.
counters_begin() {
	ethstat lab0 >/tmp/near.before
	far ethstat lab1 >/tmp/far.before
}

counters_end() {
	ethstat lab0 >/tmp/near.after
	far ethstat lab1 >/tmp/far.after
}

# shellcheck disable=SC2016 # awk's, not the shell's
sum_of_differences='
	{ short = $1; sub(/^q[0-9]+_/, "", short) }
	$1 != name && short != name { next }
	NR == FNR { sum -= $2; next }
	{ sum += $2 }
	END { printf "%.0f\n", sum }'

# grown near|far NAME: by how much a counter of that NIC grew, over all queues; qN_NAME: in one of them.
grown() {
	awk -v name="$2" "$sum_of_differences" "/tmp/$1.before" "/tmp/$1.after"
}

# equals 0 far rx_devmem_bytes, at_least 1000000 far rx_page_bytes, at_most ...
equals() {
	[ "$(grown "$2" "$3")" -eq "$1" ] && return
	echo "$3 of the $2 NIC grew by $(grown "$2" "$3"), wanted $1"
	return 1
}

at_least() {
	[ "$(grown "$2" "$3")" -ge "$1" ] && return
	echo "$3 of the $2 NIC grew by $(grown "$2" "$3"), wanted at least $1"
	return 1
}

at_most() {
	[ "$(grown "$2" "$3")" -le "$1" ] && return
	echo "$3 of the $2 NIC grew by $(grown "$2" "$3"), wanted at most $1"
	return 1
}

kernel_at_least() {
	[ "$(printf '%s\n' "$1" "$(uname -r)" | sort -V | head -n 1)" = "$1" ]
}

tx_possible() {
	kernel_at_least 6.16 || skip "this kernel cannot send from device memory"
}

# What the NICs must be like before and after: settings, rules, tables; not what they counted.
nics() {
	{
		for nic in $near_nics; do weir nic show "$nic" --json; done
		for nic in $far_nics; do far weir nic show "$nic" --json; done
	} | tr ',' '\n' | grep -vE '"[a-z_]*(packets|bytes|fail|drops|fast|slow|empty|cached|ring|inflight|state)[a-z_]*":'
}

nics_are_as_before() {
	nics >/tmp/nics.after
	cmp -s /tmp/nics.before /tmp/nics.after
}

unchanged() {
	eventually nics_are_as_before && return
	diff /tmp/nics.before /tmp/nics.after
	return 1
}

# What every fault must leave behind it: begin, the fault, as_before.
begin() {
	nics >/tmp/nics.before
	hold
}

hold() {
	held >/tmp/held.before
	shared_kib >/tmp/shared.before
}

as_before() {
	unchanged
	eventually nothing_more_is_held && return
	echo "not given back, of $(cat /tmp/shared.before) KiB of shared memory now $(shared_kib):"
	diff /tmp/held.before /tmp/held.after
	return 1
}

# What weir can hold of the system at both ends: processes and so their descriptors, dma-bufs, netlink sockets, which
# bindings live in, records of changes.
held() {
	echo "processes $(pidof weir | wc -w)"
	sed -n 's/^Total \([0-9]* objects\).*/dma-bufs \1/p' /sys/kernel/debug/dma_buf/bufinfo
	echo "netlink sockets $(wc -l </proc/net/netlink) $(far cat /proc/net/netlink | wc -l)"
	echo "records" /run/weir/* "$(far sh -c 'echo /run/weir/*')"
}

shared_kib() {
	awk '/^Shmem:/ { print $2 }' /proc/meminfo
}

# The tests' own files are in shared memory too: most device memory here is 8 MiB.
nothing_more_is_held() {
	held >/tmp/held.after
	cmp -s /tmp/held.before /tmp/held.after && [ "$(shared_kib)" -lt $(($(cat /tmp/shared.before) + 2048)) ]
}

# Of one process that stays.
descriptors() {
	find "/proc/$1/fd" -type l | wc -l
}

# A session ends after its client: its descriptors go a little later.
descriptors_are() {
	[ "$(descriptors "$1")" -eq "$2" ]
}

resident_kib() {
	awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"
}

# One test in a process of its own, with a time limit; then everything that is left of it goes.
run_test() {
	local script=$1 name=$2 began status title limit
	title="$(basename "$script" .sh): $(echo "${name#test_}" | tr _ ' ')"
	limit=$(sed -n 's/^test_seconds=//p' "$script")
	rm -f /tmp/skipped
	began=$(cut -d. -f1 /proc/uptime)
	timeout "${limit:-$test_seconds}" sh -eu -c ". /lab/lib.sh; . $script; set -x; $name" 2>/tmp/trace
	status=$?
	if [ $status -ne 0 ] && [ $status -ne 77 ]; then
		echo "the last commands:"
		tail -n 20 /tmp/trace
	fi
	# All but this process, the first one of the VM.
	[ $$ -ne 1 ] || kill -9 -1
	if lsmod | grep -q '^labnic ' && ! eventually rmmod labnic; then
		echo "the module cannot be unloaded"
		status=1
	fi
	rm -rf /run/*
	dmesg -c >/tmp/dmesg
	if grep -qE "$trouble" /tmp/dmesg; then
		echo "the kernel complains:"
		cat /tmp/dmesg
		status=1
	fi
	case $status in
	0) echo "ok - $title ($(($(cut -d. -f1 /proc/uptime) - began)) s)" ;;
	77) echo "ok - $title # skip $(cat /tmp/skipped)" ;;
	*) echo "not ok - $title (status $status)" ;;
	esac
	[ $status -eq 0 ] || [ $status -eq 77 ]
}

run_tests() {
	local failed=0 name names
	names=$(sed -n 's/^\(test_[a-z0-9_]*\)() {$/\1/p' "$1")
	for name in $names; do
		run_test "$1" "$name" || failed=1
	done
	return $failed
}
