/* SPDX-License-Identifier: BSD-3-Clause */
/* Values of gRPC's headers: time limits, percent-encoded words, base64, codes, content types. */
#include <errno.h>

#include "fuzz.h"
#include "rpc/header.h"

static void try_timeout(const char *text, size_t size)
{
	char again[RPC_TIMEOUT_TEXT];
	uint64_t ns, more;
	int ret = rpc_timeout_parse(text, size, &ns);

	MUST(ret == 0 || ret == -EINVAL);
	if (ret)
		return;
	rpc_timeout_text(ns, again);
	MUST(strlen(again) <= 9);
	MUST(!rpc_timeout_parse(again, strlen(again), &more));
	MUST(more >= ns && more - ns <= ns / 50000);
}

static void try_percent(const char *text)
{
	char *encoded = rpc_percent_encode(text), *words = strdup(text);

	MUST(encoded && words);
	for (const char *c = encoded; *c; c++)
		MUST(*c >= ' ' && *c < 127);
	rpc_percent_decode(encoded);
	MUST(strlen(encoded) == strlen(text));
	rpc_percent_decode(words);
	MUST(strlen(words) <= strlen(text));
	free(encoded);
	free(words);
}

static void try_base64(const uint8_t *data, size_t size, const char *text)
{
	char *encoded = rpc_base64_encode(data, size);
	size_t bytes = 0;
	uint8_t *back;

	MUST(encoded);
	back = rpc_base64_decode(encoded, strlen(encoded), &bytes);
	MUST(back && bytes == size && (!size || !memcmp(back, data, size)));
	free(back);
	free(encoded);
	free(rpc_base64_decode(text, size, &bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_string(data, size);

	try_timeout(text, size);
	try_percent(text);
	try_base64(data, size, text);
	MUST(rpc_code_parse(text, size) <= RPC_UNAUTHENTICATED);
	rpc_content_type_is_grpc(text, size);
	free(text);
	return 0;
}
