# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# weir p2p between device memories: what takes too long for `make check`.

test_a_large_message() {
	lab_up
	mtu 9000
	echo 128 >/sys/module/udmabuf/parameters/size_limit_mb
	# shellcheck disable=SC2086
	p2p_listen $p2p_devmem
	# shellcheck disable=SC2046
	p2p_move $(p2p_sender) --size 64M -n 1 --depth 1
	p2p_went $((64 << 20))
}

test_with_loss_every_byte_is_right() {
	lab_up
	fault drop_every 100
	# shellcheck disable=SC2086
	p2p_listen $p2p_devmem
	# shellcheck disable=SC2046
	p2p_move $(p2p_sender) --size 1M -n 2 -c 2
	at_least 1 far rx_wire_drop
	p2p_went $((2 << 20))
}

test_into_device_memory_from_ordinary_memory() {
	lab_up
	# shellcheck disable=SC2086
	p2p_listen $p2p_devmem
	p2p_move --mem host --size 300001 -n 2 -c 1
	at_least 600002 far rx_devmem_bytes
	equals 0 far from_devmem_bytes
	says client '"local":.*"path":."rx":"none","tx":"host".*"remote"'
}

test_the_client_is_killed() {
	lab_up
	p2p_kill client
}

test_there_and_back() {
	tx_possible
	lab_up
	nics >/tmp/nics.before
	# shellcheck disable=SC2086
	p2p_listen $p2p_devmem
	# shellcheck disable=SC2086
	p2p_move $p2p_devmem --op pingpong --size 300001 -n 2 -c 2
	at_least 600002 near rx_devmem_bytes
	at_least 600002 far rx_devmem_bytes
	unchanged # between two clients too
}

test_writes_that_nobody_waits_for() {
	tx_possible
	lab_up
	# shellcheck disable=SC2086
	p2p_listen $p2p_devmem
	for size in 4096 4097 300001; do
		# shellcheck disable=SC2086
		p2p_move $p2p_devmem --op write --size $size -n 3 -c 2
		p2p_went $((3 * size))
	done
}

# weir's own plugin, as NCCL would use it: its words are NCCL's environment.
test_the_plugin_with_memory_of_a_gpu() {
	[ -e /bin/libcuda.so.1 ] || skip "there is no stand-in for a GPU"
	[ -e /bin/libnccl-net-weir.so ] || skip "there is no plugin"
	tx_possible
	export LD_LIBRARY_PATH=/bin WEIR_CUDA=1 CUDA_DEVICE_MAX_CONNECTIONS=32 WEIR_PATH=devmem WEIR_IFNAME=lab
	lab_up
	nics >/tmp/nics.before
	p2p_listen --mem cuda --plugin /bin/libnccl-net-weir.so --devices lab1
	p2p_move --mem cuda --plugin /bin/libnccl-net-weir.so --devices lab0 --size 1M -n 2 -c 2
	at_least $((2 << 20)) far rx_devmem_bytes
	at_least $((2 << 20)) far from_devmem_bytes
	unchanged
}
