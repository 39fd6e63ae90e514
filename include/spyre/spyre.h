/* SPDX-License-Identifier: Apache-2.0
 * spyre-vp for C and for languages that call C: devices, contexts, tensors, copies, kernels, launches, synchronisation,
 * errors. What it does not have (raw device memory, plans of several jobs, what each attempt of a recovery said) is in C++: spyre/spyre.hpp,
 * whose rules hold here as well. Link with libspyre.so (pkg-config: spyre).
 *
 * Handles are opaque and belong to the caller, who releases each with the function of its type; releasing NULL does nothing.
 * Tensors, kernels and programs may outlive their context; using one with another context is an error.
 *
 * Every function that can fail returns a spyre_status; what it gives back goes through its last parameters, which are left
 * alone when it fails. The text and the details of the last failure are kept per thread. No C++ exception leaves a function.
 *
 * Structures of options begin with their size, and 0 in any other member means the default:
 *
 *     spyre_context_options options = {.size = sizeof options, .function = 1};
 *
 * A structure of a newer header is accepted when what this library does not know of it is 0.
 *
 * Threads: any function may be called from any thread; a handle is released when no other call uses it.
 * SOVERSION 0: the binary interface may change with any version. */
#ifndef SPYRE_SPYRE_H
#define SPYRE_SPYRE_H

#include <spyre/export.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct spyre_context spyre_context; /* a function of a card and what executes on it */
typedef struct spyre_stream spyre_stream;   /* launches and copies of one stream run in order */
typedef struct spyre_event spyre_event;     /* a place in a stream that others can wait for */
typedef struct spyre_tensor spyre_tensor;   /* memory on the card, with shape and type */
typedef struct spyre_kernel spyre_kernel;   /* a device program as the kernel build writes it; needs no card */
typedef struct spyre_program spyre_program; /* a kernel for fixed extents, loaded to a card */
typedef struct spyre_graph spyre_graph;     /* launches that the card keeps */
typedef struct spyre_capture spyre_capture; /* collects what a graph is made of */

/* ---- errors ------------------------------------------------------------------------------------------------------ */

/* Numbers never change meaning. */
typedef int32_t spyre_status;
enum {
  SPYRE_OK = 0,
  SPYRE_INVALID_ARGUMENT = 1,   /* refused before any effect; the message names the argument */
  SPYRE_OUT_OF_MEMORY = 2,      /* device, program or pinned memory, or memory of the process */
  SPYRE_STREAM_FAILED = 3,      /* the stream's first error; spyre_stream_reset() or spyre_context_recover() */
  SPYRE_TIMEOUT = 4,            /* a deadline passed; the work goes on */
  SPYRE_INVALID_ALLOCATION = 5, /* the tensor's memory is gone: a reset of the function */
  SPYRE_FAILED = 6,             /* any other typed error: card, driver, emulator */
  SPYRE_INTERNAL = 7            /* a defect of the library */
};

/* "stream failed", … */
SPYRE_API const char* spyre_status_name(spyre_status status);

/* Of the last call that failed on this thread; "" when none did. Valid until the next one that fails. */
SPYRE_API const char* spyre_last_error(void);

typedef struct spyre_error {
  size_t size;
  spyre_status status;
  uint32_t layer;        /* spyre::Layer: 0 driver, 1 transport, 2 firmware, 3 core, 4 memory, 5 emulator */
  uint32_t outcome;      /* spyre::Outcome: 1 REJECTED, 2 FAULT, 3 TIMEOUT, 4 ABORTED, 5 LOST, 6 INDETERMINATE */
  uint32_t card_status;  /* spyre::Status: why, in the card's words; 0: the card did not say */
  int32_t recoverable;   /* 1: the same object works again after next_step; 0: start over with a new one */
  const char* message;   /* these three: "" when there is nothing to say; valid as spyre_last_error() */
  const char* source;    /* argument, stream, region, job or process at fault */
  const char* next_step; /* what the caller should do */
} spyre_error;

/* The same in parts. `error->size` is set by the caller. status SPYRE_OK: nothing failed on this thread. */
SPYRE_API spyre_status spyre_last_error_details(spyre_error* error);

/* "0.1.0": of the library that is loaded. */
SPYRE_API const char* spyre_version(void);

/* ---- devices: chosen by FLEX_DEVICE, SPYRE_DEVICES, AIU_WORLD_SIZE (docs/cards.md) ------------------------------- */

SPYRE_API spyre_status spyre_device_count(size_t* count);
/* "VF2 of card0", cut to `bytes` with its terminating zero. `length`, which may be NULL: of the whole name. */
SPYRE_API spyre_status spyre_device_name(size_t index, char* name, size_t bytes, size_t* length);

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

typedef struct spyre_context_options {
  size_t size;
  /* 1: the running card's device with this index; 0: the environment decides, or a card is booted for this context. */
  uint32_t use_device_index;
  uint32_t device_index;
  /* The members below ask for a card of the context's own (embedded) when one of them is not 0. */
  uint32_t function;          /* 0: the physical function; n: virtual function n */
  uint32_t virtual_functions; /* of the card; 0: as many as `function` needs */
  uint32_t cores;             /* 0: as many as the machine has CPUs, at most 2 */
  uint32_t reserved;          /* 0 */
  uint64_t memory_bytes;      /* of the card, sparse, at least 2050 MiB; 0: 98 GiB */
  const char* firmware;       /* ELF file; NULL: SPYRE_FIRMWARE, else the library's own */
} spyre_context_options;

/* `options` may be NULL: all defaults. */
SPYRE_API spyre_status spyre_context_open(const spyre_context_options* options, spyre_context** context);
/* Another function of an embedded card: 0 the physical one, n virtual function n. The card ends with the last of its
 * contexts. */
SPYRE_API spyre_status spyre_context_open_beside(spyre_context* context, uint32_t function, spyre_context** beside);
/* Ends everything that was launched on it; its streams are not used after it. */
SPYRE_API void spyre_context_close(spyre_context* context);
/* "PF of an embedded card"; valid as long as the context. NULL for NULL. */
SPYRE_API const char* spyre_context_device_name(const spyre_context* context);

typedef struct spyre_recovery_report {
  size_t size;
  uint32_t level; /* spyre::ResetLevel that helped: 0 stream, 1 queue, 2 function, 3 firmware, 4 card, 5 power cycle */
  uint32_t attempts; /* 0: there was nothing to repair */
  uint64_t aborted;  /* launches that ended without having started */
  uint64_t lost;     /* launches that may have started */
} spyre_recovery_report;

/* Escalates from the lowest reset level that can help until everything works again. From level 2 on tensors from before are
 * refused and programs have to be loaded again (spyre_program_load). `report` may be NULL. */
SPYRE_API spyre_status spyre_context_recover(spyre_context* context, spyre_recovery_report* report);

/* ---- streams: wherever one is asked for, NULL means the context's default stream --------------------------------- */

/* `high_priority`: 0 or 1. Pools of 32 per priority, handed out in turn. */
SPYRE_API spyre_status spyre_stream_create(spyre_context* context, int high_priority, spyre_stream** stream);
SPYRE_API void spyre_stream_release(spyre_stream* stream);

/* Until everything launched before has ended. SPYRE_STREAM_FAILED: the first error, again and again until a reset. */
SPYRE_API spyre_status spyre_synchronize(spyre_context* context, spyre_stream* stream);
/* The same with a bound; SPYRE_TIMEOUT leaves everything running. */
SPYRE_API spyre_status spyre_synchronize_for(spyre_context* context, spyre_stream* stream, uint64_t nanoseconds);
/* *done: 1 when everything launched has ended, with whatever outcome; else 0. Does not block. */
SPYRE_API spyre_status spyre_query(spyre_context* context, spyre_stream* stream, int* done);
/* All streams of the context. */
SPYRE_API spyre_status spyre_context_synchronize(spyre_context* context);

/* An event behind everything that was launched on the stream. It is signalled by the card; it fails with the stream. */
SPYRE_API spyre_status spyre_event_record(spyre_context* context, spyre_stream* stream, spyre_event** event);
SPYRE_API void spyre_event_release(spyre_event* event);
/* What is launched on the stream afterwards begins when the event has been signalled. Asynchronous. */
SPYRE_API spyre_status spyre_stream_wait(spyre_context* context, spyre_stream* stream, const spyre_event* event);
/* The next launch on the stream begins when everything launched before has ended. Asynchronous. */
SPYRE_API spyre_status spyre_stream_pipeline_barrier(spyre_context* context, spyre_stream* stream);
/* For a function of the same card, also in another process, which gets the bytes over any channel. Void when the
 * function of the recording stream is reset or its context ends. */
#define SPYRE_SHARED_EVENT_BYTES 40
typedef struct spyre_shared_event {
  uint8_t bytes[SPYRE_SHARED_EVENT_BYTES];
} spyre_shared_event;
/* Blocks until the holder of the card's management function has answered, once per stream. */
SPYRE_API spyre_status spyre_event_share(const spyre_event* event, spyre_shared_event* shared);
/* As spyre_stream_wait(). Blocks while a grant is asked for, once per stream. */
SPYRE_API spyre_status spyre_stream_wait_shared(spyre_context* context, spyre_stream* stream,
                                                const spyre_shared_event* shared);
/* *done is 1 when it has ended, with whatever outcome, else 0. */
SPYRE_API spyre_status spyre_event_query(const spyre_event* event, int* done);
SPYRE_API spyre_status spyre_event_synchronize(const spyre_event* event);
/* From `start` to `end` by the card's clock; negative when `start` was signalled later. */
SPYRE_API spyre_status spyre_event_elapsed(const spyre_event* start, const spyre_event* end, int64_t* nanoseconds);

/* Ends what the stream still has and makes it usable again. */
SPYRE_API spyre_status spyre_stream_reset(spyre_context* context, spyre_stream* stream);

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

/* Formats of host memory; numbers of spyre::DataType. */
typedef int32_t spyre_data_type;
enum {
  SPYRE_FLOAT16 = 0,
  SPYRE_BFLOAT16 = 1,
  SPYRE_FLOAT32 = 2,
  SPYRE_FLOAT64 = 3, /* has no format on the card */
  SPYRE_FLOAT8_E4M3FN = 4,
  SPYRE_FLOAT8_E5M2 = 5,
  SPYRE_INT8 = 6,
  SPYRE_UINT8 = 7,
  SPYRE_INT16 = 8,
  SPYRE_INT32 = 9,
  SPYRE_INT64 = 10,
  SPYRE_BOOL = 11
};

/* Formats of device memory; numbers of spyre::DeviceType. */
typedef int32_t spyre_device_type;
enum {
  SPYRE_DEVICE_DEFAULT = -1, /* that of the host type: float16 → DL16, float32 → FP32, … */
  SPYRE_DEVICE_DL16 = 0,     /* what kernels compute with */
  SPYRE_DEVICE_FP32 = 1,
  SPYRE_DEVICE_INT32 = 2,
  SPYRE_DEVICE_INT16 = 3,
  SPYRE_DEVICE_INT8 = 4,
  SPYRE_DEVICE_UINT32 = 5,
  SPYRE_DEVICE_FP8_E4M3 = 6,
  SPYRE_DEVICE_FP8_E5M2 = 7
};

/* Uninitialised. `shape`: `rank` extents in elements. */
SPYRE_API spyre_status spyre_tensor_create(spyre_context* context, spyre_data_type type, const int64_t* shape,
                                           size_t rank, spyre_device_type device_type, spyre_tensor** tensor);
/* The memory is free when what was launched on it has ended. */
SPYRE_API void spyre_tensor_release(spyre_tensor* tensor);
/* Of the tensor as a row-major array of its host type: what the two copies below take. 0 for NULL. */
SPYRE_API size_t spyre_tensor_host_bytes(const spyre_tensor* tensor);

/* From a row-major array; `bytes` is spyre_tensor_host_bytes(). `data` may be reused when it returns; the tensor is ready
 * when the stream has come so far. */
SPYRE_API spyre_status spyre_copy_to_device(spyre_context* context, spyre_stream* stream, const spyre_tensor* tensor,
                                            const void* data, size_t bytes);
/* To a row-major array. Waits for the stream; fails as spyre_synchronize() does. */
SPYRE_API spyre_status spyre_copy_to_host(spyre_context* context, spyre_stream* stream, const spyre_tensor* tensor,
                                          void* data, size_t bytes);

/* The same with its dimensions in this order on the card, the last one in sticks; `order` ends with -1 for one element in
 * each stick (spyre::TensorOptions::dim_order). */
SPYRE_API spyre_status spyre_tensor_create_ordered(spyre_context* context, spyre_data_type type, const int64_t* shape,
                                                   size_t rank, spyre_device_type device_type, const int64_t* order,
                                                   size_t order_length, spyre_tensor** tensor);
/* A view: any sizes and strides in elements, inside of the tensor as it was allocated, whose first element is `offset`. It
 * keeps the memory. Copies to and from the host take it as a row-major array of its own. */
SPYRE_API spyre_status spyre_tensor_as_strided(const spyre_tensor* tensor, const int64_t* shape, const int64_t* stride,
                                               size_t rank, int64_t offset, spyre_tensor** view);
/* Extents into `shape`, which has room for `capacity` of them; `rank` tells how many there are (also when they do not
 * fit: SPYRE_INVALID_ARGUMENT). */
SPYRE_API spyre_status spyre_tensor_shape(const spyre_tensor* tensor, int64_t* shape, size_t capacity, size_t* rank);
SPYRE_API spyre_status spyre_tensor_type(const spyre_tensor* tensor, spyre_data_type* type);

/* ---- operations (spyre/ops.hpp, docs/operations.md) --------------------------------------------------------------- */

/* Name number `index`; NULL behind the last one. Valid for ever. */
SPYRE_API const char* spyre_operation_name(size_t index);
/* Makes the operation's program the first time that it meets these shapes, layouts and types, and launches it. Numbers
 * and integers as `spyre ops` says; `out` may be NULL: a new tensor. `results` has room for `capacity` tensors, which the
 * caller releases; `result_count` of them are made. */
SPYRE_API spyre_status spyre_run_operation(spyre_context* context, spyre_stream* stream, const char* name,
                                           const spyre_tensor* const* tensors, size_t count, const double* numbers,
                                           size_t number_count, const int64_t* integers, size_t integer_count,
                                           const spyre_tensor* out, spyre_tensor** results, size_t capacity,
                                           size_t* result_count);

typedef struct spyre_operation_options {
  size_t size;
  uint32_t forbid_copies;  /* 1: views that have to be copied first are SPYRE_INVALID_ARGUMENT (docs/operations.md) */
  uint32_t reserved;       /* 0 */
  uint64_t core_mask;      /* as that of spyre_launch_options */
  const spyre_tensor* out; /* NULL: a new tensor */
} spyre_operation_options;

/* spyre_run_operation() with options, which may be NULL. */
SPYRE_API spyre_status spyre_run_operation_with(spyre_context* context, spyre_stream* stream, const char* name,
                                                const spyre_tensor* const* tensors, size_t count, const double* numbers,
                                                size_t number_count, const int64_t* integers, size_t integer_count,
                                                const spyre_operation_options* options, spyre_tensor** results,
                                                size_t capacity, size_t* result_count);

/* ---- kernels and launches ---------------------------------------------------------------------------------------- */

/* A kernel that belongs to the firmware ("matmul", "add"): in the folder SPYRE_KERNELS, else beside the firmware. */
SPYRE_API spyre_status spyre_kernel_find(spyre_context* context, const char* name, spyre_kernel** kernel);
/* NAME.img and NAME.json of spyre_add_kernel(). */
SPYRE_API spyre_status spyre_kernel_open(const char* image, const char* metadata, spyre_kernel** kernel);
SPYRE_API void spyre_kernel_release(spyre_kernel* kernel);

typedef struct spyre_extent {
  const char* dimension;
  int64_t elements;
} spyre_extent;

/* The kernel for these extents, one of every dimension that it names, loaded to the card. */
SPYRE_API spyre_status spyre_program_create(spyre_context* context, const spyre_kernel* kernel,
                                            const spyre_extent* extents, size_t count, spyre_program** program);
/* Loads it again, after a reset of the function. */
SPYRE_API spyre_status spyre_program_load(spyre_context* context, spyre_program* program);
SPYRE_API void spyre_program_release(spyre_program* program);

typedef struct spyre_launch_options {
  size_t size;
  uint32_t
      refuse_tiled_launch; /* 1: operands of other extents or strides are refused; 0: as SPYRE_ALLOW_TILED_LAUNCH says */
  uint32_t pipeline_barrier; /* 1: begins when everything launched on the stream before has ended */
  uint64_t core_mask;        /* bit n: core n; 0: chosen by the amount of work */
  uint64_t budget_slices;    /* watchdog slices of 1 ms of the card's time; 0: the card's default */
} spyre_launch_options;

/* Asynchronous. One tensor per operand of the kernel, in order. `options` may be NULL. */
SPYRE_API spyre_status spyre_launch(spyre_context* context, spyre_stream* stream, const spyre_program* program,
                                    const spyre_tensor* const* tensors, size_t count,
                                    const spyre_launch_options* options);

/* Runs on a thread of the library; 0: it has done its work, else the stream fails with that number. It may launch, and may
 * wait for other streams. */
typedef int (*spyre_host_function)(void* data);
/* Called when everything launched before has ended well; what is launched afterwards begins when it has returned.
 * Asynchronous: `data` belongs to it until then. */
SPYRE_API spyre_status spyre_launch_host(spyre_context* context, spyre_stream* stream, spyre_host_function function,
                                         void* data);

/* ---- graphs: launches that the card keeps, launched again and again (docs/prepared.md) --------------------------- */

/* One launch. Waits for the card, launches nothing. */
SPYRE_API spyre_status spyre_prepare(spyre_context* context, spyre_stream* stream, const spyre_program* program,
                                     const spyre_tensor* const* tensors, size_t count,
                                     const spyre_launch_options* options, spyre_graph** graph);
/* Its memory on the card is free when what was launched of it has ended. */
SPYRE_API void spyre_graph_release(spyre_graph* graph);
/* How many launches it has, how many events each of its launches records, and how many wait slots it has. 0 for NULL. */
SPYRE_API size_t spyre_graph_size(const spyre_graph* graph);
SPYRE_API size_t spyre_graph_events(const spyre_graph* graph);
SPYRE_API size_t spyre_graph_slots(const spyre_graph* graph);

/* All of it, in order, on any stream of the context. Asynchronous. `slots`: an event for each wait slot; NULL in it: nothing
 * to wait for. `events`: gets what this launch has recorded, spyre_graph_events() of them, which the caller releases;
 * `event_count` 0: not wanted. After a reset of the function: SPYRE_FAILED, prepare it again. */
SPYRE_API spyre_status spyre_graph_launch(spyre_context* context, spyre_stream* stream, const spyre_graph* graph,
                                          const spyre_event* const* slots, size_t slot_count, spyre_event** events,
                                          size_t event_count);
/* Gives launch number `launch` (from 0) other tensors, for what is launched on the stream from here on. Asynchronous. */
SPYRE_API spyre_status spyre_graph_patch(spyre_context* context, spyre_stream* stream, const spyre_graph* graph,
                                         size_t launch, const spyre_tensor* const* tensors, size_t count);

/* Between the two what this thread launches on the stream is checked and collected instead of run: spyre_launch,
 * spyre_launch_host, spyre_event_record, spyre_stream_wait, spyre_stream_wait_shared, spyre_stream_pipeline_barrier. An
 * event that is recorded so stands for that of the graph's latest launch. All else on the stream fails, and the capture
 * goes on; spyre_stream_reset() abandons it. */
SPYRE_API spyre_status spyre_stream_begin_capture(spyre_context* context, spyre_stream* stream);
/* The capture has ended, also when this fails. Waits for the card. */
SPYRE_API spyre_status spyre_stream_end_capture(spyre_context* context, spyre_stream* stream, spyre_graph** graph);

/* The same without a stream that collects: one thread at a time, checked by spyre_capture_instantiate(). Not used after
 * the context's end. */
SPYRE_API spyre_status spyre_capture_create(spyre_context* context, spyre_stream* stream, spyre_capture** capture);
SPYRE_API void spyre_capture_release(spyre_capture* capture);
SPYRE_API spyre_status spyre_capture_launch(spyre_capture* capture, const spyre_program* program,
                                            const spyre_tensor* const* tensors, size_t count,
                                            const spyre_launch_options* options);
/* Each launch of the graph calls it: `data` belongs to the graph until that is released and its launches have ended. */
SPYRE_API spyre_status spyre_capture_launch_host(spyre_capture* capture, spyre_host_function function, void* data);
SPYRE_API spyre_status spyre_capture_record(spyre_capture* capture, spyre_event** event);
SPYRE_API spyre_status spyre_capture_wait(spyre_capture* capture, const spyre_event* event);
SPYRE_API spyre_status spyre_capture_wait_shared(spyre_capture* capture, const spyre_shared_event* shared);
/* For an event that spyre_graph_launch() names; slots are numbered in order. */
SPYRE_API spyre_status spyre_capture_wait_slot(spyre_capture* capture);
/* What `child` has collected so far. */
SPYRE_API spyre_status spyre_capture_add(spyre_capture* capture, const spyre_capture* child);
/* Waits for the card. As often as wanted. */
SPYRE_API spyre_status spyre_capture_instantiate(const spyre_capture* capture, spyre_graph** graph);

#ifdef __cplusplus
}
#endif

#endif
