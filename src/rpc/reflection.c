// SPDX-License-Identifier: BSD-3-Clause
#include "rpc/reflection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/call.h"
#include "rpc/frame.h"
#include "rpc/proto/outline.pb-c.h"
#include "rpc/proto/reflection.pb-c.h"
#include "rpc/proto/reflection_alpha.pb-c.h"

/* All .proto files as protoc-c understood them: a google.protobuf.FileDescriptorSet. */
extern const unsigned char rpc_descriptors[];
extern const size_t rpc_descriptors_bytes;

#define FILES_MOST 64

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

/* One file: what it names, and its bytes to hand on. */
struct proto_file {
	Weir__Outline__File *outline;
	ProtobufCBinaryData bytes;
};

struct proto_files {
	Weir__Outline__FileSet *set;
	struct proto_file file[FILES_MOST];
	size_t count;
};

static void files_close(struct proto_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		weir__outline__file__free_unpacked(files->file[i].outline, NULL);
	if (files->set)
		weir__outline__file_set__free_unpacked(files->set, NULL);
}

/* Asked for by people: unpacked for each question, kept by nobody. */
static bool files_open(struct proto_files *files)
{
	*files = (struct proto_files){ 0 };
	files->set = weir__outline__file_set__unpack(NULL, rpc_descriptors_bytes, rpc_descriptors);
	for (size_t i = 0; files->set && i < files->set->n_file && i < FILES_MOST; i++) {
		struct proto_file *file = &files->file[i];

		file->bytes = files->set->file[i];
		file->outline =
			weir__outline__file__unpack(NULL, file->bytes.len, file->bytes.data);
		if (!file->outline)
			break;
		files->count++;
	}
	if (files->set && files->count == files->set->n_file)
		return true;
	files_close(files);
	return false;
}

/* What is left of a full name behind "part.", "" behind the whole of it; NULL: it begins otherwise. */
static const char *behind(const char *name, const char *part)
{
	size_t n = strlen(part);

	if (!n)
		return name;
	if (strncmp(name, part, n) != 0 || (name[n] && name[n] != '.'))
		return NULL;
	return name + n + (name[n] == '.');
}

static bool named_has(Weir__Outline__Named **named, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(named[i]->name, name))
			return true;
	return false;
}

static bool message_has(const Weir__Outline__Message *message, const char *name)
{
	const char *rest = behind(name, message->name);

	if (!rest)
		return false;
	if (!rest[0] || named_has(message->field, message->n_field, rest) ||
		named_has(message->enum_type, message->n_enum_type, rest))
		return true;
	for (size_t i = 0; i < message->n_nested_type; i++)
		if (message_has(message->nested_type[i], rest))
			return true;
	return false;
}

static bool file_has(const Weir__Outline__File *file, const char *symbol)
{
	const char *name = behind(symbol, file->package), *rest;

	if (!name || !name[0])
		return false;
	for (size_t i = 0; i < file->n_message_type; i++)
		if (message_has(file->message_type[i], name))
			return true;
	for (size_t i = 0; i < file->n_service; i++) {
		rest = behind(name, file->service[i]->name);
		if (rest && (!rest[0] || named_has(file->service[i]->method,
						 file->service[i]->n_method, rest)))
			return true;
	}
	return named_has(file->enum_type, file->n_enum_type, name);
}

static void files_pick(const struct proto_files *files, const char *name, bool *picked)
{
	for (size_t i = 0; i < files->count; i++) {
		const Weir__Outline__File *outline = files->file[i].outline;

		if (picked[i] || strcmp(outline->name, name) != 0)
			continue;
		picked[i] = true;
		for (size_t d = 0; d < outline->n_dependency; d++)
			files_pick(files, outline->dependency[d], picked);
	}
}

/* An answer that finds no room ends the stream: a question without one would mislead. */
static void send_answer(struct rpc_call *call, const reflection_response *response)
{
	if (rpc_call_send(call, &response->base))
		rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED,
			"more questions than answers were read: ask one at a time");
}

static void answer_error(reflection_response *response, Grpc__Reflection__V1__ErrorResponse *error,
	enum rpc_code code, const char *words)
{
	error->error_code = (int32_t)code;
	error->error_message = (char *)words;
	response->message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_ERROR_RESPONSE;
	response->error_response = error;
}

static void send_error(
	struct rpc_call *call, reflection_response *response, enum rpc_code code, const char *words)
{
	Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;

	answer_error(response, &error, code, words);
	send_answer(call, response);
}

/* The file that is asked for first, then all that it imports. */
static void send_file(struct rpc_call *call, reflection_response *response,
	const struct proto_files *files, const struct proto_file *asked)
{
	Grpc__Reflection__V1__FileDescriptorResponse found =
		GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
	ProtobufCBinaryData bytes[FILES_MOST];
	bool picked[FILES_MOST] = { false };

	files_pick(files, asked->outline->name, picked);
	bytes[found.n_file_descriptor_proto++] = asked->bytes;
	for (size_t i = 0; i < files->count; i++)
		if (picked[i] && &files->file[i] != asked)
			bytes[found.n_file_descriptor_proto++] = files->file[i].bytes;
	found.file_descriptor_proto = bytes;
	response->message_response_case =
		GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE;
	response->file_descriptor_response = &found; // cppcheck-suppress autoVariables
	send_answer(call, response);
}

static void find_file(
	struct rpc_call *call, reflection_response *response, const char *name, bool by_symbol)
{
	struct proto_files files;
	const struct proto_file *found = NULL;

	if (!files_open(&files)) {
		send_error(call, response, RPC_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	for (size_t i = 0; i < files.count && !found; i++)
		if (by_symbol ? file_has(files.file[i].outline, name)
			      : !strcmp(files.file[i].outline->name, name))
			found = &files.file[i];
	if (found)
		send_file(call, response, &files, found);
	else
		send_error(call, response, RPC_NOT_FOUND,
			by_symbol ? "no such symbol here" : "no such file here");
	files_close(&files);
}

static void list_services(struct rpc_call *call, reflection_response *response)
{
	Grpc__Reflection__V1__ListServiceResponse list =
		GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
	size_t count = call->server->services;
	Grpc__Reflection__V1__ServiceResponse *service = calloc(count, sizeof(*service));
	Grpc__Reflection__V1__ServiceResponse **pointer = calloc(count, sizeof(void *));

	if (service && pointer) {
		for (size_t i = 0; i < count; i++) {
			grpc__reflection__v1__service_response__init(&service[i]);
			service[i].name = (char *)call->server->service[i]->descriptor->name;
			pointer[i] = &service[i];
		}
		list.service = pointer;
		list.n_service = count;
		response->message_response_case =
			GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE;
		response->list_services_response = &list; // cppcheck-suppress autoVariables
		send_answer(call, response);
	} else {
		send_error(call, response, RPC_RESOURCE_EXHAUSTED, "out of memory");
	}
	free(service);
	free(pointer);
}

static void reflection_cancelled(struct rpc_call *call, void *context)
{
	(void)context;
	rpc_call_finish(call, RPC_CANCELLED, NULL);
}

static void reflection_info(struct rpc_call *call, const ProtobufCMessage *message, void *context)
{
	reflection_response response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
	const reflection_request *request = (const void *)message;

	(void)context;
	if (!request) {
		rpc_call_finish(call, RPC_OK, NULL);
		return;
	}
	rpc_call_on_cancel(call, reflection_cancelled, NULL);
	response.valid_host = request->host;
	response.original_request = (reflection_request *)request;
	switch (request->message_request_case) {
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_BY_FILENAME:
		find_file(call, &response, request->file_by_filename, false);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_FILE_CONTAINING_SYMBOL:
		find_file(call, &response, request->file_containing_symbol, true);
		break;
	case GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_LIST_SERVICES:
		list_services(call, &response);
		break;
	default:
		send_error(call, &response, RPC_NOT_FOUND, "there are no extensions here");
		break;
	}
}

int rpc_reflection_add(struct rpc_server *server, struct err *e)
{
	static const struct rpc_method methods[] = {
		{ "ServerReflectionInfo", RPC_BIDI, reflection_info },
	};
	static const struct rpc_service v1 = { &grpc__reflection__v1__server_reflection__descriptor,
		methods, 1, NULL };
	static const struct rpc_service v1alpha = {
		&grpc__reflection__v1alpha__server_reflection__descriptor, methods, 1, NULL
	};
	int ret = rpc_server_add(server, &v1, e);

	return ret ? ret : rpc_server_add(server, &v1alpha, e);
}
