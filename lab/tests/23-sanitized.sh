# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# Both ends under the address and undefined-behaviour sanitizers: whatever these find ends the program.

sanitized() {
	command -v weir-sanitized >/dev/null || skip "there is no sanitized weir: make check has one"
	mkdir -p /tmp/sanitized
	ln -sf /bin/weir-sanitized /tmp/sanitized/weir
	PATH=/tmp/sanitized:$PATH
}

test_stream_between_device_memories() {
	sanitized
	lab_up
	send=
	! kernel_at_least 6.16 || send="--mem udmabuf --mem-size 1M --path devmem"
	serve stream --mem udmabuf --mem-size 1M --path devmem --queues 2-3 --rx-copy
	# shellcheck disable=SC2086 # words
	measure stream -H "$far4" -F 3 -l 1 --warmup 0 --validate $send
	at_least 100000 far rx_devmem_bytes
}

test_rr_into_device_memory() {
	sanitized
	lab_up
	path=devmem
	kernel_at_least 6.16 || path=auto # it answers too
	serve rr --mem udmabuf --mem-size 1M --path $path
	measure rr -H "$far4" -Q 4000 -R 100 -F 2 -l 1 --warmup 0 --validate
	at_least 100000 far rx_devmem_bytes
}

test_the_nic_is_put_back_after_a_signal() {
	sanitized
	lab_up
	PATH=${PATH#*:} nics >/tmp/nics.before
	serve stream --mem udmabuf --mem-size 1M --path devmem
	weir stream -c -H "$far4" -l 20 >/tmp/client 2>&1 &
	client=$!
	usleep 1500000
	kill "$(server_pid)"
	wait "$server" || [ $? -ne 99 ]
	wait $client || [ $? -ne 99 ]
	PATH=${PATH#*:}
	unchanged
}
