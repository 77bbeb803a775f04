# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# Every error of the device memory calls, as the kernel reports it: the table that weir's messages rest on.

test_every_error_is_as_known() {
	lab_up
	errors "$(cat "$far_pid_file")"
}

test_a_nic_without_devmem_tx_says_so() {
	lab_up no_netmem_tx=1
	errors "$(cat "$far_pid_file")" no-netmem-tx
}
