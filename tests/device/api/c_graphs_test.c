/* SPDX-License-Identifier: Apache-2.0
 * Prepared launches, captures, shared events and functions of the host in the C interface, on a booted card. */
#include <spyre/spyre.h>
#include <string.h>

#include "c_checks.h"

#define REFUSED(call) CHECK((call) == SPYRE_INVALID_ARGUMENT)

static float values[ELEMENTS];

/* What all tests work with. */
typedef struct bench {
  spyre_context* context;
  spyre_stream *a, *b;
  spyre_program* add;
  spyre_tensor *one, *left, *right;
} bench;

static void write_all(const bench* on, const spyre_tensor* tensor, float value) {
  for (int i = 0; i < ELEMENTS; ++i) values[i] = value;
  OK(spyre_copy_to_device(on->context, NULL, tensor, values, sizeof values));
  OK(spyre_synchronize_for(on->context, NULL, BOUND_NS));
}
static float first_of(const bench* on, const spyre_tensor* tensor) {
  OK(spyre_copy_to_host(on->context, NULL, tensor, values, sizeof values));
  for (int i = 1; i < ELEMENTS; ++i) CHECK(values[i] == values[0]);
  return values[0];
}

static bench make_bench(void) {
  const int64_t shape[2] = {M, N};
  const spyre_extent extents[2] = {{"M", M}, {"N", N}};
  const spyre_context_options options = {.size = sizeof options, .virtual_functions = 1, .cores = 2};
  spyre_kernel* kernel = NULL;
  bench made;
  memset(&made, 0, sizeof made);
  OK(spyre_context_open(&options, &made.context));
  OK(spyre_stream_create(made.context, 0, &made.a));
  OK(spyre_stream_create(made.context, 0, &made.b));
  OK(spyre_tensor_create(made.context, SPYRE_FLOAT32, shape, 2, SPYRE_DEVICE_DL16, &made.one));
  OK(spyre_tensor_create(made.context, SPYRE_FLOAT32, shape, 2, SPYRE_DEVICE_DL16, &made.left));
  OK(spyre_tensor_create(made.context, SPYRE_FLOAT32, shape, 2, SPYRE_DEVICE_DL16, &made.right));
  OK(spyre_kernel_find(made.context, "add", &kernel));
  OK(spyre_program_create(made.context, kernel, extents, 2, &made.add));
  spyre_kernel_release(kernel);
  write_all(&made, made.one, 1);
  return made;
}

static int count_up(void* data) {
  ++*(int*)data;
  return 0;
}
static int fail_with_seven(void* unused) {
  (void)unused;
  return 7;
}

static void prepared_launches_run_and_are_patched(const bench* on) {
  const spyre_tensor* there[3] = {on->left, on->one, on->right};
  const spyre_tensor* back[3] = {on->right, on->one, on->left};
  const spyre_launch_options barrier = {.size = sizeof barrier, .pipeline_barrier = 1};
  const spyre_launch_options wrong = {.size = sizeof wrong, .pipeline_barrier = 2};
  spyre_graph *graph = NULL, *unused = NULL;
  write_all(on, on->left, 0);
  OK(spyre_prepare(on->context, on->a, on->add, there, 3, &barrier, &graph));
  CHECK(spyre_graph_size(graph) == 1 && spyre_graph_events(graph) == 0 && spyre_graph_slots(graph) == 0);
  OK(spyre_graph_launch(on->context, on->a, graph, NULL, 0, NULL, 0));
  OK(spyre_graph_patch(on->context, on->a, graph, 0, back, 3));
  OK(spyre_graph_launch(on->context, on->a, graph, NULL, 0, NULL, 0));
  OK(spyre_launch(on->context, on->a, on->add, there, 3, &barrier));
  OK(spyre_synchronize_for(on->context, on->a, BOUND_NS));
  CHECK(first_of(on, on->left) == 2 && first_of(on, on->right) == 3);
  REFUSED(spyre_launch(on->context, on->a, on->add, there, 3, &wrong));
  REFUSED(spyre_graph_patch(on->context, on->a, graph, 1, back, 3));
  REFUSED(spyre_prepare(on->context, on->a, on->add, there, 2, NULL, &unused));
  REFUSED(spyre_prepare(on->context, on->a, NULL, there, 3, NULL, &unused));
  REFUSED(spyre_graph_launch(on->context, on->a, NULL, NULL, 0, NULL, 0));
  CHECK(unused == NULL && spyre_graph_size(NULL) == 0 && spyre_graph_events(NULL) == 0 && spyre_graph_slots(NULL) == 0);
  spyre_graph_release(graph);
  spyre_graph_release(NULL);
}

/* right = left + 1 on one stream, left = right + 1 on the other. */
static void captures_order_streams(const bench* on) {
  const spyre_tensor* there[3] = {on->left, on->one, on->right};
  const spyre_tensor* back[3] = {on->right, on->one, on->left};
  spyre_capture *front = NULL, *behind = NULL, *all = NULL;
  spyre_graph *first = NULL, *second = NULL;
  spyre_event *went = NULL, *returned = NULL, *unused = NULL;
  const spyre_event* slot = NULL;
  int runs = 0;
  write_all(on, on->left, 0);
  OK(spyre_capture_create(on->context, on->a, &front));
  OK(spyre_capture_create(on->context, on->a, &all));
  OK(spyre_capture_create(on->context, on->b, &behind));
  OK(spyre_capture_wait_slot(all));
  OK(spyre_capture_launch(front, on->add, there, 3, NULL));
  OK(spyre_capture_record(front, &went));
  OK(spyre_capture_add(all, front));
  OK(spyre_capture_wait(behind, went));
  OK(spyre_capture_launch(behind, on->add, back, 3, NULL));
  OK(spyre_capture_launch_host(behind, count_up, &runs));
  OK(spyre_capture_record(behind, &returned));
  OK(spyre_capture_instantiate(all, &first));
  OK(spyre_capture_instantiate(behind, &second));
  CHECK(spyre_graph_slots(first) == 1 && spyre_graph_events(second) == 1);
  spyre_event_release(returned);
  returned = NULL;
  for (int i = 0; i < 20; ++i) {
    slot = returned;
    OK(spyre_graph_launch(on->context, on->a, first, &slot, 1, NULL, 0));
    spyre_event_release(returned);
    OK(spyre_graph_launch(on->context, on->b, second, NULL, 0, &returned, 1));
  }
  OK(spyre_event_synchronize(returned));
  OK(spyre_event_synchronize(went));
  CHECK(first_of(on, on->left) == 40 && runs == 20);
  REFUSED(spyre_graph_launch(on->context, on->a, first, NULL, 0, NULL, 0));
  REFUSED(spyre_graph_launch(on->context, on->a, first, NULL, 1, NULL, 0));
  REFUSED(spyre_graph_launch(on->context, on->b, second, NULL, 0, &unused, 2));
  REFUSED(spyre_capture_launch_host(front, NULL, NULL));
  REFUSED(spyre_capture_wait(front, NULL));
  REFUSED(spyre_capture_add(front, NULL));
  REFUSED(spyre_capture_wait_shared(front, NULL));
  REFUSED(spyre_capture_record(NULL, &unused));
  CHECK(unused == NULL);
  spyre_event_release(went);
  spyre_event_release(returned);
  spyre_graph_release(first);
  spyre_graph_release(second);
  spyre_capture_release(front);
  spyre_capture_release(behind);
  spyre_capture_release(all);
  spyre_capture_release(NULL);
}

static void a_stream_is_captured(const bench* on) {
  const spyre_tensor* up[3] = {on->left, on->one, on->left};
  spyre_graph *graph = NULL, *unused = NULL;
  spyre_event* end = NULL;
  int runs = 0, done = 0;
  write_all(on, on->left, 0);
  REFUSED(spyre_stream_end_capture(on->context, on->a, NULL));
  CHECK(spyre_stream_end_capture(on->context, on->a, &unused) == SPYRE_FAILED);
  OK(spyre_stream_begin_capture(on->context, on->a));
  CHECK(spyre_stream_begin_capture(on->context, on->a) == SPYRE_FAILED);
  up[2] = on->right;
  OK(spyre_launch(on->context, on->a, on->add, up, 3, NULL));
  OK(spyre_launch_host(on->context, on->a, count_up, &runs));
  OK(spyre_event_record(on->context, on->a, &end));
  CHECK(spyre_synchronize(on->context, on->a) == SPYRE_FAILED);
  CHECK(spyre_query(on->context, on->a, &done) == SPYRE_FAILED);
  CHECK(spyre_copy_to_host(on->context, on->a, on->left, values, sizeof values) == SPYRE_FAILED);
  OK(spyre_stream_end_capture(on->context, on->a, &graph));
  CHECK(runs == 0 && unused == NULL);
  for (int i = 0; i < 3; ++i) OK(spyre_graph_launch(on->context, on->a, graph, NULL, 0, NULL, 0));
  OK(spyre_event_synchronize(end));
  CHECK(runs == 3 && first_of(on, on->right) == 1);
  OK(spyre_stream_begin_capture(on->context, on->a));
  OK(spyre_stream_reset(on->context, on->a)); /* abandons it */
  OK(spyre_synchronize_for(on->context, on->a, BOUND_NS));
  spyre_event_release(end);
  spyre_graph_release(graph);
}

static void events_are_shared(const bench* on) {
  spyre_event* event = NULL;
  spyre_shared_event shared;
  spyre_context *other = NULL, *unused = NULL;
  spyre_capture* capture = NULL;
  spyre_graph* graph = NULL;
  memset(&shared, 0, sizeof shared);
  REFUSED(spyre_stream_wait_shared(on->context, on->b, &shared)); /* bytes that are none */
  REFUSED(spyre_stream_wait_shared(on->context, on->b, NULL));
  OK(spyre_event_record(on->context, on->a, &event));
  REFUSED(spyre_event_share(NULL, &shared));
  REFUSED(spyre_event_share(event, NULL));
  OK(spyre_event_share(event, &shared));
  CHECK(spyre_stream_wait_shared(on->context, on->b, &shared) == SPYRE_FAILED); /* for other functions only */
  OK(spyre_context_open_beside(on->context, 1, &other));
  CHECK(spyre_context_open_beside(on->context, 1, &unused) == SPYRE_FAILED && unused == NULL); /* it has an owner */
  OK(spyre_stream_wait_shared(other, NULL, &shared));
  OK(spyre_capture_create(other, NULL, &capture));
  OK(spyre_capture_wait_shared(capture, &shared));
  OK(spyre_capture_instantiate(capture, &graph));
  OK(spyre_graph_launch(other, NULL, graph, NULL, 0, NULL, 0));
  OK(spyre_synchronize_for(other, NULL, BOUND_NS));
  spyre_graph_release(graph);
  spyre_capture_release(capture);
  spyre_event_release(event);
  spyre_context_close(other);
}

static void functions_that_fail_are_told(const bench* on) {
  REFUSED(spyre_launch_host(on->context, on->a, NULL, NULL));
  OK(spyre_launch_host(on->context, on->a, fail_with_seven, NULL));
  CHECK(spyre_synchronize_for(on->context, on->a, BOUND_NS) == SPYRE_STREAM_FAILED);
  CHECK(strstr(spyre_last_error(), "it returned 7") != NULL);
  OK(spyre_stream_reset(on->context, on->a));
}

/* A refusal of a strict launch, not of anything else. */
#define NOT_TILED(call)                                                       \
  do {                                                                        \
    REFUSED(call);                                                            \
    CHECK(strstr(spyre_last_error(), "tiled launch is not allowed") != NULL); \
  } while (0)

/* Fewer rows, and every other row of a larger tensor: what `refuse_tiled_launch` refuses on each way to the card. */
static void strict_launches_take_the_compiled_shape_only(const bench* on) {
  const int64_t fewer[2] = {M - 1, N}, rows[2] = {M, N}, twice[2] = {2 * M, N}, steps[2] = {2 * N, 1};
  const spyre_launch_options strict = {.size = sizeof strict, .refuse_tiled_launch = 1};
  spyre_tensor *large = NULL, *stepped = NULL, *small = NULL;
  spyre_graph *graph = NULL, *unused = NULL;
  spyre_capture* capture = NULL;
  OK(spyre_tensor_create(on->context, SPYRE_FLOAT32, twice, 2, SPYRE_DEVICE_DL16, &large));
  OK(spyre_tensor_as_strided(large, rows, steps, 2, 0, &stepped));
  OK(spyre_tensor_create(on->context, SPYRE_FLOAT32, fewer, 2, SPYRE_DEVICE_DL16, &small));
  {
    const spyre_tensor* exact[3] = {on->left, on->one, on->right};
    const spyre_tensor* view[3] = {stepped, on->one, on->right};
    const spyre_tensor* shorter[3] = {small, small, small};
    const spyre_tensor* const* others[2] = {view, shorter};
    write_all(on, on->left, 2);
    OK(spyre_prepare(on->context, on->a, on->add, exact, 3, &strict, &graph));
    for (int i = 0; i < 2; ++i) {
      NOT_TILED(spyre_launch(on->context, on->a, on->add, others[i], 3, &strict));
      NOT_TILED(spyre_prepare(on->context, on->a, on->add, others[i], 3, &strict, &unused));
      NOT_TILED(spyre_graph_patch(on->context, on->a, graph, 0, others[i], 3));
      OK(spyre_capture_create(on->context, on->a, &capture));
      OK(spyre_capture_launch(capture, on->add, others[i], 3, &strict));
      NOT_TILED(spyre_capture_instantiate(capture, &unused));
      spyre_capture_release(capture);
      OK(spyre_stream_begin_capture(on->context, on->a));
      NOT_TILED(spyre_launch(on->context, on->a, on->add, others[i], 3, &strict));
      OK(spyre_stream_reset(on->context, on->a));
    }
    CHECK(unused == NULL);
    OK(spyre_launch(on->context, on->a, on->add, view, 3, NULL));
    OK(spyre_launch(on->context, on->a, on->add, exact, 3, &strict));
    OK(spyre_graph_launch(on->context, on->a, graph, NULL, 0, NULL, 0));
    OK(spyre_synchronize_for(on->context, on->a, BOUND_NS));
    CHECK(first_of(on, on->right) == 3);
  }
  spyre_graph_release(graph);
  spyre_tensor_release(stepped);
  spyre_tensor_release(large);
  spyre_tensor_release(small);
}

int main(void) {
  bench on = make_bench();
  prepared_launches_run_and_are_patched(&on);
  captures_order_streams(&on);
  a_stream_is_captured(&on);
  events_are_shared(&on);
  functions_that_fail_are_told(&on);
  strict_launches_take_the_compiled_shape_only(&on);
  spyre_tensor_release(on.one);
  spyre_tensor_release(on.left);
  spyre_tensor_release(on.right);
  spyre_program_release(on.add);
  spyre_stream_release(on.a);
  spyre_stream_release(on.b);
  spyre_context_close(on.context);
  puts("ok");
  return 0;
}
