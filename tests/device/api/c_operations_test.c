/* SPDX-License-Identifier: Apache-2.0
 * Views and operations in the C interface, on a booted card. */
#include <spyre/spyre.h>
#include <string.h>

#include "c_checks.h"

#define REFUSED(call) CHECK((call) == SPYRE_INVALID_ARGUMENT)

/* Row 1 of a matrix whose columns are sticks begins inside of them. */
static void copies_can_be_forbidden(spyre_context* context, const spyre_tensor* x) {
  const int64_t part_shape[2] = {1, 3}, part_stride[2] = {3, 1};
  spyre_operation_options options = {.size = sizeof options, .forbid_copies = 1};
  spyre_tensor *part = NULL, *result = NULL;
  float got[3];
  size_t count = 0;
  OK(spyre_tensor_as_strided(x, part_shape, part_stride, 2, 3, &part));
  const spyre_tensor* const operand[1] = {part};
  REFUSED(spyre_run_operation_with(context, NULL, "neg", operand, 1, NULL, 0, NULL, 0, &options, &result, 1, &count));
  CHECK(strstr(spyre_last_error(), "a view that steps inside of sticks") != NULL);
  options.forbid_copies = 2;
  REFUSED(spyre_run_operation_with(context, NULL, "neg", operand, 1, NULL, 0, NULL, 0, &options, &result, 1, &count));
  options.forbid_copies = 0;
  options.reserved = 1;
  REFUSED(spyre_run_operation_with(context, NULL, "neg", operand, 1, NULL, 0, NULL, 0, &options, &result, 1, &count));
  options.reserved = 0;
  options.size = 0;
  REFUSED(spyre_run_operation_with(context, NULL, "neg", operand, 1, NULL, 0, NULL, 0, &options, &result, 1, &count));
  CHECK(result == NULL);
  options.size = sizeof options;
  options.core_mask = 1;
  OK(spyre_run_operation_with(context, NULL, "neg", operand, 1, NULL, 0, NULL, 0, &options, &result, 1, &count));
  OK(spyre_copy_to_host(context, NULL, result, got, sizeof got));
  CHECK(got[0] == -4 && got[1] == -5 && got[2] == -6);
  /* Into a tensor that is there; a whole one is not copied. */
  spyre_tensor* again = NULL;
  options.forbid_copies = 1;
  options.out = result;
  OK(spyre_run_operation_with(context, NULL, "neg", (const spyre_tensor* const[]){result}, 1, NULL, 0, NULL, 0,
                              &options, &again, 1, &count));
  spyre_tensor_release(again);
  OK(spyre_run_operation_with(context, NULL, "neg", operand, 1, NULL, 0, NULL, 0, NULL, &again, 1, &count));
  spyre_tensor_release(again);
  OK(spyre_copy_to_host(context, NULL, result, got, sizeof got));
  CHECK(got[0] == 4 && got[2] == 6);
  spyre_tensor_release(result);
  spyre_tensor_release(part);
}

int main(void) {
  const int64_t shape[2] = {2, 3};
  const int64_t order[2] = {1, 0};
  const float values[6] = {1, 2, 3, 4, 5, 6};
  const double two = 2;
  const int64_t keep_and_dim[2] = {0, 1};
  const spyre_context_options options = {.size = sizeof options, .virtual_functions = 1, .cores = 2};
  spyre_context* context = NULL;
  spyre_tensor *x = NULL, *turned = NULL, *result = NULL;
  spyre_tensor* both[2] = {NULL, NULL};
  float got[6];
  int64_t extents[2];
  size_t count = 0, rank = 0;
  spyre_data_type type = -1;

  OK(spyre_context_open(&options, &context));
  OK(spyre_tensor_create_ordered(context, SPYRE_FLOAT32, shape, 2, SPYRE_DEVICE_DL16, order, 2, &x));
  OK(spyre_copy_to_device(context, NULL, x, values, sizeof values));

  /* A transposed view, multiplied by a number. */
  const int64_t turned_shape[2] = {3, 2}, turned_stride[2] = {1, 3};
  OK(spyre_tensor_as_strided(x, turned_shape, turned_stride, 2, 0, &turned));
  OK(spyre_run_operation(context, NULL, "mul", (const spyre_tensor* const[]){turned}, 1, &two, 1, NULL, 0, NULL,
                         &result, 1, &count));
  CHECK(count == 1);
  OK(spyre_tensor_shape(result, extents, 2, &rank));
  CHECK(rank == 2 && extents[0] == 3 && extents[1] == 2);
  OK(spyre_tensor_type(result, &type));
  CHECK(type == SPYRE_FLOAT32);
  OK(spyre_copy_to_host(context, NULL, result, got, sizeof got));
  CHECK(got[0] == 2 && got[1] == 8 && got[2] == 4 && got[5] == 12);
  spyre_tensor_release(result);

  OK(spyre_run_operation(context, NULL, "sum", (const spyre_tensor* const[]){x}, 1, NULL, 0, keep_and_dim, 2, NULL,
                         &result, 1, &count));
  OK(spyre_copy_to_host(context, NULL, result, got, 2 * sizeof got[0]));
  CHECK(got[0] == 6 && got[1] == 15);

  /* The matrix as an image of one channel: windows of 2 x 2 elements. */
  const int64_t image_shape[3] = {1, 2, 3}, image_stride[3] = {6, 3, 1};
  const int64_t window[4] = {2, 2, 1, 1};
  spyre_tensor *image = NULL, *pooled = NULL;
  OK(spyre_tensor_as_strided(x, image_shape, image_stride, 3, 0, &image));
  OK(spyre_run_operation(context, NULL, "max_pool2d", (const spyre_tensor* const[]){image}, 1, NULL, 0, window, 4, NULL,
                         &pooled, 1, &count));
  OK(spyre_copy_to_host(context, NULL, pooled, got, 2 * sizeof got[0]));
  CHECK(got[0] == 5 && got[1] == 6);
  REFUSED(spyre_run_operation(context, NULL, "conv2d", (const spyre_tensor* const[]){image}, 1, NULL, 0, NULL, 0, NULL,
                              both, 2, &count));
  spyre_tensor_release(pooled);
  spyre_tensor_release(image);

  copies_can_be_forbidden(context, x);

  REFUSED(spyre_tensor_shape(x, extents, 1, &rank));
  REFUSED(spyre_run_operation(context, NULL, "mish", (const spyre_tensor* const[]){x}, 1, NULL, 0, NULL, 0, NULL, both,
                              2, &count));
  const int64_t k = 1;
  REFUSED(spyre_run_operation(context, NULL, "topk", (const spyre_tensor* const[]){x}, 1, NULL, 0, &k, 1, NULL, both, 1,
                              &count));
  REFUSED(spyre_run_operation(context, NULL, "neg", NULL, 1, NULL, 0, NULL, 0, NULL, both, 2, &count));
  CHECK(strcmp(spyre_operation_name(0), "copy") == 0);
  CHECK(spyre_operation_name(1000) == NULL);

  spyre_tensor_release(result);
  spyre_tensor_release(turned);
  spyre_tensor_release(x);
  spyre_context_close(context);
  return 0;
}
