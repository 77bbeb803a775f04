# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# What bench/probe --lab runs inside the lab's VM, whose clock counts instructions: nobody takes time away there. Two agents
# on loopback as in bench/probe itself, both on the one CPU, driven by weir probe; then the bare ping-pong on the same
# addresses. bench/probe appends a function that says how long and how many, and reads the lines that begin with "figure".

port=18080 metrics=19100
# shellcheck disable=SC2034 # the lab reads it
test_seconds=120
# The addresses of an agent's NICs.
nics() {
	echo "127.77.$1.1,127.77.$1.2,127.77.$1.3,127.77.$1.4,127.77.$1.5,127.77.$1.6,127.77.$1.7,127.77.$1.8"
}

# agent NUMBER [OPTION...]
agent() {
	local number=$1
	shift
	weir agent --nics "$(nics "$number")" --listen "$(nics "$number")" --insecure -p $port --max-qps 0 --results "/tmp/rows.$number" --flush 1 \
		--metrics-port $((metrics + number)) "$@" >"/tmp/agent.$number" 2>&1 &
	eval "agent_$number=$!"
	eventually page "$number" >/dev/null || { cat "/tmp/agent.$number" && return 1; }
}

# The metrics of an agent.
page() {
	wget -q -O - "http://127.0.0.1:$((metrics + $1))/metrics"
}

# targets N: so many lines of pairs of NICs. The answering agent is there once by each of its addresses, so that a pair of NICs
# may come eight times: a list has each pair of hosts once.
targets() {
	awk -v n="$1" 'BEGIN {
		for (k = 0; k < n; k++)
			printf "127.77.1.1/%d 127.77.2.%d/%d\n", k % 8, int(k / 8) % 8 + 1, int(k / 64) % 8
	}'
}

# Nanoseconds of CPU of all threads of a process. No process is begun for it: that would be measured too.
cpu_ns() {
	ns=0
	for file in "/proc/$1"/task/*/schedstat; do
		read -r one rest <"$file"
		ns=$((ns + one))
	done
}

snapshot() {
	page 1 >"/tmp/metrics.$1"
	cpu_ns "$agent_1"
	eval "asked_$1=$ns"
	cpu_ns "$agent_2"
	eval "answered_$1=$ns"
	read -r up rest </proc/uptime
	eval "up_$1=$up"
}

# probe NAME TARGETS RATE SECONDS: prints one figure
probe() {
	targets "$2" >/tmp/targets
	weir probe start --hosts "127.77.1.1,127.77.2.[1-8]" -p $port --targets file:/tmp/targets --rate "$3" --budget 0
	sleep 10 # a new connection acknowledges its first 16 segments one by one, and a pace is to be learned
	rm -f /tmp/rows.1/*
	snapshot 1
	sleep "$4"
	snapshot 2
	weir probe stop --hosts 127.77.1.1 -p $port
	cat /tmp/rows.1/* | sed 's/.*,//' | sort -n >/tmp/rtt
	echo "figure name=$1 asked_ns=$((asked_2 - asked_1)) answered_ns=$((answered_2 - answered_1))" \
		"seconds=$(awk "BEGIN { print $up_2 - $up_1 }") rows=$(wc -l </tmp/rtt) lost=$(grep -cv '^[0-9]*$' /tmp/rtt)" \
		"p50_ns=$(awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }' /tmp/rtt)" "$(late)"
}

# How many were sent later than each bound of the agent's histogram, as late_us=bound:count,...
late() {
	awk '/^weir_probe_late_seconds_(bucket|count)/ {
		le = $1
		if (!sub(/.*le="/, "", le)) le = "all"
		sub(/".*/, "", le)
		if (FNR == NR) before[le] = $2
		else printf "%s%s:%d", (n++ ? "," : "late_s="), le, $2 - before[le]
	}' /tmp/metrics.1 /tmp/metrics.2
}

# bare NAME RATE SECONDS [look]
bare() {
	# shellcheck disable=SC2086 # a word or none
	echo "figure name=$1 $(probe_bare 127.77.1.1 127.77.2.1 25 "$2" "$3" 0 0 ${4-} | sed 's/[{}" ]//g; s/:/=/g; s/,/ /g')"
}
