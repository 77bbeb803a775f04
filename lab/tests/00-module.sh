# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# The test NICs themselves, with host memory: what everything else in the lab stands on.

stream() {
	serve stream
	measure stream -l 1 --warmup 0 "$@"
}

test_stream_to_the_far_end() {
	lab_up
	stream -H "$far4"
	at_least 200000 far from_other_bytes
	equals 0 far from_devmem_bytes
	equals 0 far rx_devmem_bytes
	equals 0 far rx_alloc_fail
}

test_stream_from_the_far_end_over_ipv6() {
	lab_up
	stream -6 -H "$far6" -M
	at_least 200000 near from_other_bytes
	equals 0 near rx_devmem_bytes
}

test_eight_flows_are_spread_over_the_queues() {
	lab_up
	stream -H "$far4" -F 8
	used=0
	for queue in 0 1 2 3; do
		[ "$(grown far q${queue}_rx_bytes)" -lt 100000 ] || used=$((used + 1))
	done
	[ $used -gt 1 ]
}

test_rr() {
	lab_up
	serve rr
	measure rr -H "$far4" -l 1 --warmup 0
}

test_without_split_the_payload_stays_with_the_headers() {
	lab_up
	stream -H "$far4"
	at_least 200000 far rx_linear_bytes
	equals 0 far rx_page_bytes
}

test_jumbo_frames() {
	lab_up
	mtu 9000
	stream -H "$far4"
	at_least 200000 far from_other_bytes
	[ $(($(grown far rx_bytes) / $(grown far rx_pkts))) -gt 4000 ]
}

test_hardware_gro_puts_packets_together() {
	lab_up
	far weir nic prepare lab1 --set "tcp-data-split=on feature:rx-gro-hw=on" >/dev/null
	stream -H "$far4" --validate
	at_least 100 far rx_merged
	at_least 200000 far rx_page_bytes
	[ "$(grown far rx_merged)" -le "$(grown far rx_pkts)" ]
	far weir nic restore lab1 >/dev/null
	stream -6 -H "$far6"
	equals 0 far rx_merged
}

test_lost_packets_are_sent_again() {
	lab_up
	fault drop_every 50
	stream -H "$far4"
	at_least 2 far rx_wire_drop
	at_least 200000 far from_other_bytes
}

test_a_flow_outlives_link_flaps() {
	lab_up
	serve stream
	(
		for _ in 1 2 3; do
			usleep 300000
			far ip link set lab1 down
			[ "$(cat /sys/class/net/lab0/carrier)" = 0 ]
			usleep 100000
			far ip link set lab1 up
			[ "$(cat /sys/class/net/lab0/carrier)" = 1 ]
		done
	) &
	flaps=$!
	measure stream -H "$far4" -l 2 --warmup 0
	wait $flaps
	at_least 200000 far from_other_bytes
}

test_a_nic_that_vanishes_comes_back() {
	lab_up
	echo labnic.0 >/sys/bus/platform/drivers/labnic/unbind
	[ ! -e /sys/class/net/lab0 ]
	[ "$(far cat /sys/class/net/lab1/carrier)" = 0 ]
	echo labnic.0 >/sys/bus/platform/drivers/labnic/bind
	ip address add "$near4"/24 dev lab0
	ip link set lab0 up
	quietly ping -c 1 -W 5 "$far4"
}
