# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# A server with device memory and clients that speak neper's protocol: their data follows the handshake at once,
# so its queues are chosen before.

# A server of requests answers too: where the kernel cannot send from device memory, through host memory.
path=devmem
kernel_at_least 6.16 || path=auto

# between WORKLOAD SERVER_OPTIONS CLIENT_OPTIONS
between() {
	# shellcheck disable=SC2086 # words
	serve "$1" --mem udmabuf --mem-size 8M --path $path --validate $2
	# shellcheck disable=SC2086
	measure "$1" --protocol neper -H "$far4" -l 1 --validate $3
}

test_a_stream_comes_into_udmabuf() {
	lab_up
	nics >/tmp/nics.before
	between stream "" "-F 2"
	at_least 100000 far rx_devmem_bytes
	says server '"plain_bytes":0'
	! grep -q devmem_missed /tmp/server.json
	unchanged
}

test_a_queue_for_each_port() {
	lab_up
	between stream "--queues 2-3 --num-ports 2 -T 2" "-F 4 -T 2 --num-ports 2"
	at_least 50000 far q2_rx_devmem_bytes
	at_least 50000 far q3_rx_devmem_bytes
	says server '"threads":2'
	! grep -q devmem_missed /tmp/server.json
}

test_more_threads_than_ports_share_one() {
	lab_up
	between stream "--queues 3" "-F 2 -T 2"
	at_least 100000 far rx_devmem_bytes
	grep -q 'one for each data port' /tmp/server
	says server '"threads":1'
}

test_requests_come_into_udmabuf() {
	lab_up
	between rr "-Q 3000 -R 10" "-Q 3000 -R 10"
	at_least 100000 far rx_devmem_bytes
	! grep -q devmem_missed /tmp/server.json
}
