# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# weir p2p between device memories: every byte is checked where it belongs, the NICs' own counters and both ends' records say
# which way it went.

test_every_size_over_several_sockets() {
	lab_up
	nics >/tmp/nics.before
	# shellcheck disable=SC2086 # words
	p2p_listen $p2p_devmem --sockets 3 --queues 2-3
	for size in 1 100001; do
		# shellcheck disable=SC2046
		p2p_move $(p2p_sender) --size $size -n 3 -c 2 --chunk 64K
		p2p_went $((3 * size))
	done
	# shellcheck disable=SC2046
	p2p_move $(p2p_sender) --size 4M -n 2 -c 2
	p2p_went $((8 << 20))
	at_least 1000000 far q2_rx_devmem_bytes
	at_least 1000000 far q3_rx_devmem_bytes
	kill "$server"
	wait "$server" || true
	unchanged
}

test_the_client_reads() {
	tx_possible
	lab_up
	# shellcheck disable=SC2086
	p2p_listen $p2p_devmem
	# shellcheck disable=SC2086
	p2p_move $p2p_devmem --op read --size 300001 -n 2 -c 1
	at_least 600002 near rx_devmem_bytes
}

test_what_header_split_missed_is_in_its_place_and_named() {
	kernel_at_least 6.16 || skip "this kernel mixes such packets and ends the connection"
	lab_up
	fault linear_bytes 100
	# shellcheck disable=SC2086
	p2p_listen $p2p_devmem
	# shellcheck disable=SC2086
	p2p_move $p2p_devmem --size 300001 -n 2 -c 1
	says client '"rx_linear_bytes":[1-9]'
	says client '"verdict":"doubtful"'
	grep -q "landed in host memory: header split left it with the headers" /tmp/client
}

test_auto_says_why_it_is_staged() {
	lab_up no_unreadable=1
	p2p_listen --mem udmabuf --pool 8M
	p2p_move --mem udmabuf --path staged --size 300001 -n 1 -c 1
	equals 0 far rx_devmem_bytes
	says client '"remote":.*"path":."rx":"staged","tx":"none","reason":"[^"]*does not put memory there'
	says client '"local":.*"path":."rx":"none","tx":"staged","reason":null'
}

# A driver that runs kernels on the CPU stands in for that of a GPU; its memory is made of memfds, so that the NIC reaches it
# as it would reach a GPU's, and weir cannot.
test_memory_of_a_gpu() {
	[ -e /bin/libcuda.so.1 ] || skip "there is no stand-in for a GPU: make check has one"
	export LD_LIBRARY_PATH=/bin
	lab_up
	gpu="--mem cuda --pool 8M"
	send="--path auto"
	! kernel_at_least 6.16 || send="--path devmem"
	# shellcheck disable=SC2086 # words
	p2p_listen $gpu --path devmem --devices lab1 --sockets 2
	# shellcheck disable=SC2086
	p2p_move $gpu $send --devices lab0 --size 700001 -n 2 -c 1
	says client '"memory":"cuda".*"memory":"cuda"'
	p2p_went 1400002
	# What a host keeps in ordinary memory comes to the GPU as well.
	p2p_move --mem host --size 300001 -n 1 -c 1
	at_least 300001 far rx_devmem_bytes
	equals 0 far from_devmem_bytes
	says client '"local":.*"path":."rx":"none","tx":"host".*"remote"'
}

test_the_server_is_killed() {
	lab_up
	p2p_kill server
}
