# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# weir rr between device memories: requests and responses are validated where they lie.

# A server answers too: where the kernel cannot send from device memory, its answers go through host memory.
path=devmem
kernel_at_least 6.16 || path=auto

# between SERVER_OPTIONS CLIENT_OPTIONS
between() {
	# shellcheck disable=SC2086 # words
	serve rr $1
	# shellcheck disable=SC2086
	measure rr -H "$far4" -l 1 --warmup 0 --validate $2
}

test_requests_come_into_udmabuf() {
	lab_up
	nics >/tmp/nics.before
	between "--mem udmabuf --mem-size 8M --path $path" "-Q 4000 -R 100"
	at_least 100000 far rx_devmem_bytes
	equals 0 far from_devmem_bytes
	says server '"rx_path":"devmem"'
	unchanged
}

test_both_ends_in_udmabuf() {
	tx_possible
	lab_up
	between "--mem udmabuf --mem-size 8M --path devmem" "-Q 1 -R 9000 -F 3 --mem udmabuf --mem-size 8M --path devmem"
	at_least 20 far rx_devmem_bytes     # requests of one byte
	at_least 100000 near rx_devmem_bytes
	at_least 100000 near from_devmem_bytes
	says client '"fragments_per_call":[1-9]'
}

test_several_requests_under_way() {
	lab_up
	between "--mem udmabuf --mem-size 8M --path $path" "-Q 3000 -R 1 --outstanding 4 -F 2"
	at_least 100000 far rx_devmem_bytes
}

test_staged_leaves_the_nic_alone() {
	lab_up
	between "--mem udmabuf --mem-size 8M --path staged" "-Q 3000 -R 3000 --mem udmabuf --mem-size 8M --path staged"
	equals 0 far rx_devmem_bytes
	equals 0 near rx_devmem_bytes
	says server '"rx_path":"staged","tx_path":"staged"'
}
