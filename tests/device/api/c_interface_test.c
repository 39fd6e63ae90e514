/* SPDX-License-Identifier: Apache-2.0
 * The C interface on a booted card: every function but those of c_graphs_test.c, every kind of refusal. */
#include <pthread.h>
#include <spyre/spyre.h>
#include <string.h>

#include "c_checks.h"

static float a_values[ELEMENTS], b_values[ELEMENTS], sums[ELEMENTS];

static spyre_context* open_card(void) {
  spyre_context* context = NULL;
  spyre_context_options options;
  memset(&options, 0, sizeof options);
  CHECK(spyre_context_open(&options, &context) == SPYRE_INVALID_ARGUMENT); /* size 0 */
  CHECK(context == NULL);
  options.size = sizeof options;
  options.reserved = 1;
  CHECK(spyre_context_open(&options, &context) == SPYRE_INVALID_ARGUMENT);
  options.reserved = 0;
  options.firmware = "/no such firmware";
  CHECK(spyre_context_open(&options, &context) != SPYRE_OK);
  CHECK(context == NULL && strstr(spyre_last_error(), "/no such firmware") != NULL);
  options.firmware = NULL;
  options.memory_bytes = (uint64_t)1 << 20; /* refused before anything is booted */
  CHECK(spyre_context_open(&options, &context) != SPYRE_OK);
  CHECK(context == NULL && strstr(spyre_last_error(), "too little for a card") != NULL);
  options.memory_bytes = 0;
  options.virtual_functions = 1;
  options.cores = 2;
  OK(spyre_context_open(&options, &context));
  CHECK(strcmp(spyre_context_device_name(context), "PF of an embedded card") == 0);
  return context;
}

/* A program built with a newer header passes a longer structure. */
static void structures_of_other_versions(spyre_context* context, const spyre_program* program) {
  struct {
    spyre_launch_options known;
    uint64_t unknown;
  } newer;
  memset(&newer, 0, sizeof newer);
  newer.known.size = sizeof newer;
  CHECK(spyre_launch(context, NULL, program, NULL, 0, &newer.known) == SPYRE_INVALID_ARGUMENT);
  CHECK(strstr(spyre_last_error(), "does not know") == NULL); /* refused for its tensors, not for its size */
  newer.unknown = 1;
  CHECK(spyre_launch(context, NULL, program, NULL, 0, &newer.known) == SPYRE_INVALID_ARGUMENT);
  CHECK(strstr(spyre_last_error(), "does not know") != NULL);
}

static void sums_are_right(spyre_context* context, spyre_stream* stream) {
  const int64_t shape[2] = {M, N};
  const spyre_extent extents[2] = {{"M", M}, {"N", N}};
  spyre_tensor *a = NULL, *b = NULL, *c = NULL;
  spyre_kernel* add = NULL;
  spyre_program* program = NULL;
  const spyre_tensor* operands[3];
  int done = 0;

  OK(spyre_tensor_create(context, SPYRE_FLOAT32, shape, 2, SPYRE_DEVICE_DL16, &a));
  OK(spyre_tensor_create(context, SPYRE_FLOAT32, shape, 2, SPYRE_DEVICE_DL16, &b));
  OK(spyre_tensor_create(context, SPYRE_FLOAT32, shape, 2, SPYRE_DEVICE_DL16, &c));
  CHECK(spyre_tensor_host_bytes(a) == sizeof a_values);
  for (int i = 0; i < ELEMENTS; ++i) {
    a_values[i] = (float)(i % 61);
    b_values[i] = (float)(i % 17) - 8.0f;
  }
  OK(spyre_copy_to_device(context, stream, a, a_values, sizeof a_values));
  OK(spyre_copy_to_device(context, stream, b, b_values, sizeof b_values));
  CHECK(spyre_copy_to_device(context, stream, b, b_values, 4) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_copy_to_device(context, stream, b, NULL, sizeof b_values) == SPYRE_INVALID_ARGUMENT);

  OK(spyre_kernel_find(context, "add", &add));
  CHECK(spyre_program_create(context, add, extents, 1, &program) == SPYRE_INVALID_ARGUMENT);
  CHECK(program == NULL);
  OK(spyre_program_create(context, add, extents, 2, &program));
  operands[0] = a;
  operands[1] = b;
  operands[2] = c;
  OK(spyre_launch(context, stream, program, operands, 3, NULL));
  OK(spyre_synchronize_for(context, stream, BOUND_NS));
  OK(spyre_query(context, stream, &done));
  CHECK(done == 1);
  OK(spyre_copy_to_host(context, stream, c, sums, sizeof sums));
  for (int i = 0; i < ELEMENTS; ++i) CHECK(sums[i] == a_values[i] + b_values[i]);

  CHECK(spyre_launch(context, stream, program, operands, 2, NULL) == SPYRE_INVALID_ARGUMENT);
  operands[2] = NULL;
  CHECK(spyre_launch(context, stream, program, operands, 3, NULL) == SPYRE_INVALID_ARGUMENT);
  structures_of_other_versions(context, program);

  spyre_program_release(program);
  spyre_kernel_release(add);
  spyre_tensor_release(a);
  spyre_tensor_release(b);
  spyre_tensor_release(c);
}

static void* error_of_another_thread(void* unused) {
  (void)unused;
  CHECK(strlen(spyre_last_error()) == 0);
  return NULL;
}

static void events_order_streams(spyre_context* context) {
  spyre_stream* first = NULL;
  spyre_stream* second = NULL;
  spyre_event* start = NULL;
  spyre_event* end = NULL;
  int64_t elapsed = -1;
  int done = 0;

  OK(spyre_stream_create(context, 0, &first));
  OK(spyre_stream_create(context, 1, &second));
  OK(spyre_event_record(context, first, &start));
  OK(spyre_stream_wait(context, second, start));
  OK(spyre_stream_pipeline_barrier(context, second));
  OK(spyre_event_record(context, second, &end));
  OK(spyre_event_synchronize(end));
  OK(spyre_event_query(start, &done));
  CHECK(done == 1);
  OK(spyre_event_elapsed(start, end, &elapsed));
  CHECK(elapsed >= 0);
  OK(spyre_context_synchronize(context));
  CHECK(spyre_stream_wait(context, second, NULL) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_event_record(context, first, NULL) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_event_elapsed(start, NULL, &elapsed) == SPYRE_INVALID_ARGUMENT);
  spyre_event_release(end);
  spyre_event_release(start);
  spyre_event_release(NULL);
  spyre_stream_release(second);
  spyre_stream_release(first);
}

/* A kernel that never ends: its budget stops it, the stream says so until it is reset. */
static void failures_are_told(spyre_context* context) {
  spyre_stream* stream = NULL;
  spyre_kernel* spin = NULL;
  spyre_program* program = NULL;
  const spyre_launch_options budget = {.size = sizeof budget, .budget_slices = 10};
  spyre_error error = {.size = sizeof error};
  spyre_recovery_report report = {.size = sizeof report};
  pthread_t thread;

  OK(spyre_stream_create(context, 1, &stream));
  OK(spyre_kernel_find(context, "spin", &spin));
  OK(spyre_program_create(context, spin, NULL, 0, &program));
  OK(spyre_launch(context, stream, program, NULL, 0, &budget));
  CHECK(spyre_synchronize(context, stream) == SPYRE_STREAM_FAILED);
  OK(spyre_last_error_details(&error));
  CHECK(error.status == SPYRE_STREAM_FAILED && error.outcome == 3 && error.recoverable == 1);
  CHECK(strlen(error.message) != 0 && strlen(error.next_step) != 0);
  CHECK(pthread_create(&thread, NULL, error_of_another_thread, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(spyre_launch(context, stream, program, NULL, 0, NULL) == SPYRE_STREAM_FAILED);
  OK(spyre_stream_reset(context, stream));
  OK(spyre_synchronize(context, stream));

  OK(spyre_launch(context, stream, program, NULL, 0, &budget));
  CHECK(spyre_synchronize(context, stream) == SPYRE_STREAM_FAILED);
  OK(spyre_context_recover(context, &report));
  CHECK(report.level == 0 && report.attempts == 1);
  OK(spyre_synchronize(context, stream));
  OK(spyre_program_load(context, program));

  spyre_program_release(program);
  spyre_kernel_release(spin);
  spyre_stream_release(stream);
}

static void wrong_arguments_are_refused(spyre_context* context) {
  const int64_t shape[2] = {8, -1};
  spyre_tensor* tensor = NULL;
  spyre_kernel* kernel = NULL;
  spyre_error error = {.size = 1};
  size_t count = 0, length = 0;
  char name[8];

  CHECK(spyre_tensor_create(context, 99, shape, 2, SPYRE_DEVICE_DEFAULT, &tensor) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_tensor_create(context, SPYRE_FLOAT16, shape, 2, 99, &tensor) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_tensor_create(context, SPYRE_FLOAT16, shape, 2, SPYRE_DEVICE_DEFAULT, &tensor) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_tensor_create(context, SPYRE_FLOAT16, NULL, 2, SPYRE_DEVICE_DEFAULT, &tensor) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_tensor_create(NULL, SPYRE_FLOAT16, shape, 1, SPYRE_DEVICE_DEFAULT, &tensor) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_synchronize(NULL, NULL) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_kernel_find(context, NULL, &kernel) == SPYRE_INVALID_ARGUMENT);
  CHECK(spyre_kernel_open("/no.img", "/no.json", &kernel) != SPYRE_OK);
  CHECK(tensor == NULL && kernel == NULL);
  CHECK(spyre_last_error_details(&error) == SPYRE_INVALID_ARGUMENT);
  CHECK(strcmp(spyre_status_name(SPYRE_TIMEOUT), "timeout") == 0);

  OK(spyre_device_count(&count));
  if (count == 0) {
    CHECK(spyre_device_name(0, name, sizeof name, NULL) != SPYRE_OK);
  } else {
    OK(spyre_device_name(0, name, sizeof name, &length));
    CHECK(strlen(name) < sizeof name && length != 0);
  }
  spyre_tensor_release(NULL);
  spyre_stream_release(NULL);
  spyre_program_release(NULL);
  spyre_kernel_release(NULL);
  spyre_context_close(NULL);
}

int main(void) {
  spyre_context* context;
  spyre_stream* stream = NULL;
  CHECK(strlen(spyre_version()) != 0);
  CHECK(strlen(spyre_last_error()) == 0);
  context = open_card();
  sums_are_right(context, NULL);
  OK(spyre_stream_create(context, 0, &stream));
  sums_are_right(context, stream);
  spyre_stream_release(stream);
  events_order_streams(context);
  failures_are_told(context);
  wrong_arguments_are_refused(context);
  spyre_context_close(context);
  puts("ok");
  return 0;
}
