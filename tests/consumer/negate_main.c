/* SPDX-License-Identifier: Apache-2.0
 * The same through the C interface: boots a card, runs an own kernel, reads an error. */
#include <spyre/spyre.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64, COLUMNS = 128, ELEMENTS = ROWS * COLUMNS };

static void require_ok(spyre_status status, const char* what) {
  if (status == SPYRE_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, spyre_status_name(status), spyre_last_error());
  exit(1);
}

static void require(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "FAILED: %s\n", what);
  exit(1);
}

int main(int count, char** arguments) {
  static float values[ELEMENTS], result[ELEMENTS];
  const int64_t shape[2] = {ROWS, COLUMNS};
  const spyre_extent extents[2] = {{"M", ROWS}, {"N", COLUMNS}};
  const spyre_tensor* operands[2];
  const spyre_context_options options = {.size = sizeof options, .function = 1};
  spyre_context* context = NULL;
  spyre_tensor *a = NULL, *b = NULL;
  spyre_kernel* kernel = NULL;
  spyre_program* program = NULL;

  require(count == 3, "usage: negate_c negate.img negate.json");
  printf("libspyre %s\n", spyre_version());
  require_ok(spyre_context_open(&options, &context), "open");
  printf("%s\n", spyre_context_device_name(context));
  require_ok(spyre_tensor_create(context, SPYRE_FLOAT32, shape, 2, SPYRE_DEVICE_DL16, &a), "a");
  require_ok(spyre_tensor_create(context, SPYRE_FLOAT32, shape, 2, SPYRE_DEVICE_DL16, &b), "b");
  for (int i = 0; i < ELEMENTS; ++i) values[i] = (float)(i % 257 - 128);
  require_ok(spyre_copy_to_device(context, NULL, a, values, sizeof values), "copy to the card");

  require_ok(spyre_kernel_open(arguments[1], arguments[2], &kernel), "kernel");
  require_ok(spyre_program_create(context, kernel, extents, 2, &program), "program");
  operands[0] = a;
  operands[1] = b;
  require_ok(spyre_launch(context, NULL, program, operands, 2, NULL), "launch");
  require_ok(spyre_synchronize(context, NULL), "synchronize");
  require_ok(spyre_copy_to_host(context, NULL, b, result, sizeof result), "copy to the host");
  for (int i = 0; i < ELEMENTS; ++i) require(result[i] == -values[i], "every element is negated");

  require(spyre_launch(context, NULL, program, operands, 1, NULL) == SPYRE_INVALID_ARGUMENT, "one tensor is refused");
  require(strlen(spyre_last_error()) != 0, "the refusal has a text");
  printf("refused: %s\n", spyre_last_error());

  spyre_program_release(program);
  spyre_kernel_release(kernel);
  spyre_tensor_release(b);
  spyre_tensor_release(a);
  spyre_context_close(context);
  printf("ok\n");
  return 0;
}
