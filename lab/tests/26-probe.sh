# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=dash disable=SC2154
#
# Agents whose payloads lie in udmabuf, over the NICs: every byte of every answer is compared where it lies. An agent takes no
# queue of a NIC, so nothing of the NICs changes, also when it is killed.

# The weir of make check is one without the agent; a sanitized one is beside it.
with_agent() {
	weir agent --help >/dev/null 2>&1 && return
	command -v weir-sanitized >/dev/null || skip "this weir was built without the agent"
	mkdir -p /tmp/sanitized
	ln -sf /bin/weir-sanitized /tmp/sanitized/weir
	PATH=/tmp/sanitized:$PATH
}

agents_answer() {
	grep -q 'gRPC on port' /tmp/near.agent && grep -q 'gRPC on port' /tmp/far.agent
}

# Rows with a round trip.
answered() {
	[ "$(cat /tmp/rows/*.csv | grep -c ',[0-9]*$')" -ge "$1" ]
}

# dma_bufs N: there are so many more than before.
dma_bufs() {
	now=$(sed -n 's/^Total \([0-9]*\) objects.*/\1/p' /sys/kernel/debug/dma_buf/bufinfo)
	[ $((now - before)) -eq "$1" ]
}

test_payloads_in_udmabuf_are_verified_and_the_nics_left_alone() {
	with_agent
	lab_up
	PATH=${PATH#/tmp/sanitized:} nics >/tmp/nics.before
	before=0
	dma_bufs 0 || before=$now
	rm -rf /tmp/rows
	agent="agent --mem udmabuf --payload 20000 --insecure --verbose --flush 1"
	# shellcheck disable=SC2086 # words
	weir $agent --nics $near4 --results /tmp/rows 2>/tmp/near.agent &
	near_agent=$!
	# shellcheck disable=SC2086
	nsenter -t "$(cat "$far_pid_file")" -n -m weir $agent --nics $far4 2>/tmp/far.agent &
	far_agent=$!
	eventually agents_answer || { cat /tmp/near.agent /tmp/far.agent && return 1; }
	dma_bufs 2 # one of each
	counters_begin
	weir probe start --hosts "$near4,$far4" --verify
	eventually answered 5
	counters_end
	! grep -v ',[0-9]*$' /tmp/rows/*.csv # none was lost, none had other bytes
	at_least 100000 far rx_linear_bytes # 20,000 each way, through the host
	equals 0 far rx_devmem_bytes
	kill $near_agent
	wait $near_agent
	kill -9 $far_agent
	wait $far_agent || true
	eventually dma_bufs 0
	PATH=${PATH#/tmp/sanitized:} unchanged
}
