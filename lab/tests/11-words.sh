# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# weir's own words and next step for every error of the device memory calls, each provoked: programs of tests/,
# built with weir.

test_words_for_udmabuf() {
	quietly test_udmabuf
}

test_a_dmabuf_through_the_transport() {
	ip link set lo up
	quietly test_transport_dmabuf
}

test_words_for_bind() {
	lab_up
	WEIR_LAB_NIC=lab1 far bind_faults
}

# refusal NIC QUEUE|tx ERRNO WORDS STEP
refusal() {
	far bind_faults "$@"
}

# Starts somebody at the far end who has what weir wants.
occupied() {
	far occupy "$@" >/tmp/occupy &
	eventually grep -q ready /tmp/occupy
}

test_words_for_a_nic_with_xdp() {
	lab_up
	occupied xdp lab1
	refusal lab1 2 17 "an XDP program is attached" "xdp off"
}

test_words_for_a_queue_with_af_xdp() {
	lab_up
	occupied xsk lab1 2
	refusal lab1 2 16 "an AF_XDP socket has a queue" "other queues"
}

test_words_for_drivers_that_cannot() {
	lab_up
	fault no_unreadable 1
	refusal lab1 2 61 "that the CPU cannot read" "newer driver"
	fault no_unreadable 0
	# On 6.12 the kernel would stumble over it: it must not be asked.
	occupied netkit netkit1
	refusal netkit1 0 95 "netkit1" "NIC"
	refusal lo 0 95 "lo" "NIC"
	kernel_at_least 6.16 || return 0
	refusal netkit1 tx 95 "no device that can reach memory by itself" "physical NIC"
	fault no_dma 1
	refusal lab1 2 95 "no DMA" "physical NIC"
	refusal lab1 tx 95 "no device that can reach memory by itself" "physical NIC"
}

test_words_for_send_and_receive() {
	lab_up
	devmem_faults "$(cat "$far_pid_file")"
}
