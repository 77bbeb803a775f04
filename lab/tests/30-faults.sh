# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# What goes wrong around device memory. Each test: no hang, words of its own with the next step, no kernel warning
# (run_test looks), and by as_before the NICs as they were, field by field, and nothing held any more: no process, dma-buf,
# memory, binding or record of changes.

# Starts a client in the background, $client is its process.
start() {
	weir "$@" -c --out /tmp/client.json >/tmp/client 2>&1 &
	client=$!
}

# Waits until data comes into the device memory of the far end.
await_data() {
	eventually data_comes || eventually data_comes || eventually data_comes
}

data_comes() {
	[ "$(far ethstat lab1 | awk '/rx_devmem_bytes/ { sum += $2 } END { printf "%.0f", sum }')" -gt 20000 ]
}

# Both ends, whatever they end with: for runs that are to fail.
both_end() {
	wait "$client" || true
	wait "$server" || true
}

printed() {
	grep -qE "$2" "/tmp/$1" && return
	echo "the $1 did not print \"$2\", but:"
	cat "/tmp/$1"
	return 1
}

# refused SERVER_OPTIONS CLIENT_OPTIONS: there is no run, and both ends say so in time.
refused() {
	# shellcheck disable=SC2086 # words
	serve stream $1
	# shellcheck disable=SC2086
	! weir stream -c -H "$far4" -l 1 $2 >/tmp/client 2>&1
	kill "$(server_pid)" 2>/dev/null || true
	wait "$server" || true
}

test_link_flaps() {
	lab_up
	begin
	serve stream --mem udmabuf --mem-size 8M --path devmem
	(
		for _ in 1 2; do
			usleep 500000
			far ip link set lab1 down
			usleep 100000
			far ip link set lab1 up
		done
	) &
	flaps=$!
	measure stream -H "$far4" -l 2 --warmup 0 --validate
	wait $flaps
	at_least 100000 far rx_devmem_bytes
	as_before
}

test_without_header_split_every_flow_is_named() {
	lab_up
	begin
	fault nosplit_every 1
	serve stream --mem udmabuf --mem-size 8M --path devmem
	measure stream -H "$far4" -l 1 --warmup 0 --validate -F 2
	equals 0 far rx_devmem_bytes
	for flow in 0 1; do
		says server "100 % of flow $flow landed in the server.s host memory: its queue is the right one, but header split"
	done
	says server '"rx_path":"host"'
	as_before
}

test_steering_that_misses_is_named() {
	lab_up
	begin
	serve stream --mem udmabuf --mem-size 8M --path devmem
	start stream -H "$far4" -l 3 --warmup 0
	await_data
	usleep 500000
	# Somebody else takes the rule away: what follows comes by ordinary queues.
	far ethstat lab1 --drop-rules
	both_end
	says server 'of flow 0 landed in the server.s host memory: it came through an ordinary queue, so steering missed it'
	as_before
}

test_broken_header_split_says_what_to_do() {
	lab_up
	begin
	fault mixed_every 5
	serve stream --mem udmabuf --mem-size 8M --path devmem
	start stream -H "$far4" -l 2 --warmup 0
	both_end
	printed server 'one packet holds both device memory and ordinary memory: header split is broken'
	printed server 'use --path staged'
	as_before
}

test_a_pool_of_one_page_stalls_and_goes_on() {
	lab_up
	begin
	serve stream --mem udmabuf --path devmem --mem-size 4096
	measure stream -H "$far4" -l 2 --warmup 0 --validate
	at_least 1000 far rx_devmem_bytes
	says server '"pool_stalls":[1-9]'
	as_before
}

test_a_reader_that_stops_exhausts_the_pool_and_recovers() {
	lab_up
	begin
	serve stream --mem udmabuf --path devmem --mem-size 65536
	start stream -H "$far4" -l 5 --warmup 0 --validate
	await_data
	pid=$(server_pid)
	kill -STOP "$pid"
	usleep 1500000
	kill -CONT "$pid"
	both_end
	! grep -q wrong_payload /tmp/server.json
	says server '"pool_stalls":[1-9]'
	as_before
}

test_a_sender_that_stalls() {
	lab_up
	begin
	serve stream --mem udmabuf --mem-size 8M --path devmem
	start stream -H "$far4" -l 4 --warmup 0 --validate
	await_data
	kill -STOP $client
	usleep 1500000
	kill -CONT $client
	both_end
	says server '"verdict":"(good|doubtful)"'
	! grep -q wrong_payload /tmp/server.json
	as_before
}

test_a_nic_without_support() {
	lab_up
	begin
	refused "--mem udmabuf --mem-size 8M --path devmem --nic lo" ""
	printed server 'the driver of lo cannot give single queues other memory'
	printed server 'use a NIC whose driver can'
	printed client 'use a NIC whose driver can'
	as_before
}

test_auto_is_staged_where_the_nic_cannot_and_says_why() {
	lab_up
	begin
	fault no_unreadable 1
	serve stream --mem udmabuf --mem-size 8M
	measure stream -H "$far4" -l 1 --warmup 0 --validate
	equals 0 far rx_devmem_bytes
	says server '"rx_path":"staged"'
	says server '"rx_reason":"[^"]*does not put memory there that the CPU cannot read'
	printed server 'received through host memory: cannot bind'
	refused "--mem udmabuf --mem-size 8M --path devmem" ""
	printed server 'does not put memory there that the CPU cannot read'
	as_before
}

test_a_kernel_without_tx_says_so() {
	kernel_at_least 6.16 && skip "this kernel can send from device memory"
	lab_up
	begin
	refused "" "--mem udmabuf --mem-size 8M --path devmem"
	printed client 'this kernel cannot send from device memory'
	printed client 'sending Linux 6.16'
	as_before
}

test_a_nic_without_tx_says_so() {
	tx_possible
	lab_up no_netmem_tx=1
	begin
	refused "" "--mem udmabuf --mem-size 8M --path devmem"
	printed client 'the driver of lab0 cannot send from device memory'
	printed client 'weir nic show lab0'
	serve stream
	measure stream -H "$far4" -l 1 --warmup 0 --validate --mem udmabuf --mem-size 8M
	says client '"tx_path":"staged"'
	as_before
}

test_the_limit_of_udmabuf() {
	lab_up
	begin
	refused "--mem udmabuf --path devmem --mem-size 128M" ""
	printed client 'cannot make a dma-buf of 128 MiB: udmabuf takes at most 64'
	printed server 'cannot make a dma-buf of 128 MiB: udmabuf takes at most 64; raise the limit'
	as_before
}

test_without_cap_net_admin_nothing_is_touched() {
	lab_up
	begin
	echo 'nobody:x:65534:65534::/:/bin/sh' >/etc/passwd
	chmod 600 /dev/udmabuf
	serve stream
	! su nobody -c "weir stream -c -H $far4 -l 1 --mem udmabuf --mem-size 8M --path staged" >/tmp/client 2>&1
	printed client 'cannot open /dev/udmabuf: Permission denied'
	printed client 'run as root, or: sudo setfacl'
	kill "$(server_pid)"
	wait "$server" || true
	chmod 666 /dev/udmabuf
	serve stream --mem udmabuf --mem-size 8M # as root: the client is the one without rights
	! su nobody -c "weir stream -c -M -H $far4 -l 1 --mem udmabuf --mem-size 8M --path devmem" >/tmp/client 2>&1
	printed client 'changing lab0 needs CAP_NET_ADMIN; nothing was touched'
	printed client 'run it as root'
	unchanged
	kill "$(server_pid)"
	wait "$server" || true
	serve stream
	su nobody -c "weir stream -c -H $far4 -l 1 --mem udmabuf --mem-size 8M --out /tmp/nobody.json" >/tmp/client 2>&1 || [ $? -eq 3 ]
	wait "$server" || true
	grep -qE '"tx_path":"staged".*"tx_reason":"[^"]*needs CAP_NET_ADMIN"' /tmp/nobody.json
	as_before
}

test_an_interface_that_vanishes() {
	lab_up
	hold
	serve stream --mem udmabuf --mem-size 8M --path devmem
	start stream -H "$far4" -l 20 --warmup 0
	await_data
	echo labnic.1 >/sys/bus/platform/drivers/labnic/unbind
	wait "$server" || true
	printed server 'the interface lab1, which had the memory bound, has gone'
	kill $client
	wait $client || true
	eventually nothing_more_is_held
}

test_a_disk_that_is_full() {
	lab_up
	begin
	far mkdir -p /run/full
	far mount -t tmpfs -o size=4k full /run/full
	far sh -c 'cat /dev/zero >/run/full/all 2>/dev/null' || true
	export WEIR_STATE_DIR=/run/full
	refused "--mem udmabuf --mem-size 8M --path devmem" ""
	unset WEIR_STATE_DIR
	printed server 'cannot write the record of changes /run/full/.*No space left'
	printed client 'cannot write the record of changes .* name another directory in WEIR_STATE_DIR'
	far umount /run/full
	as_before
}

test_killed_at_any_moment() {
	lab_up
	begin
	for after in 0 200000 data; do
		serve stream --mem udmabuf --mem-size 8M --path devmem
		start stream -H "$far4" -l 20
		if [ $after = data ]; then await_data; else usleep $after; fi
		kill -9 "$(server_pid)"
		kill $client 2>/dev/null || true
		both_end
		as_before
	done
}

# A server that stays holds no more after a client was killed, one gave up and one was refused.
test_a_server_that_stays_frees_what_faults_left() {
	lab_up
	begin
	far weir stream --mem udmabuf --mem-size 1M --path devmem >/tmp/server 2>&1 &
	server=$!
	eventually listening
	pid=$(server_pid)
	start stream -H "$far4" -l 0.2 --warmup 0
	wait $client || true
	unchanged
	usleep 1000000
	before=$(descriptors "$pid")
	for signal in KILL INT; do
		counters_begin
		start stream -H "$far4" -l 20
		eventually data_has_grown || eventually data_has_grown
		kill -$signal $client
		wait $client || true
		unchanged
	done
	! weir rr -c -H "$far4" -l 1 >/tmp/client 2>&1
	printed client 'it may run another workload than rr'
	eventually descriptors_are "$pid" "$before"
	unchanged
	kill "$pid"
	wait "$server" || true
	as_before
}

data_has_grown() {
	counters_end
	[ "$(grown far rx_devmem_bytes)" -gt 20000 ]
}
