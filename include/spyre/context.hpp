// SPDX-License-Identifier: Apache-2.0
// spyre::Context: everything a program needs, in one object. `auto context = spyre::Context::open();` takes the device
// that the environment names, or boots a card beside this process.
//
//   FLEX_DEVICE=PF | VF   the device with the index LOCAL_RANK (0) among the running cards (spyre/devices.hpp): attached. The
//                         function is this process's own until the context ends.
//   FLEX_DEVICE=MOCK      a card of its own, embedded
//   not set               likewise
//
// What the code says wins over the environment: options with a card, or with a function, boot a card of their own; a
// device_index is taken instead of LOCAL_RANK. A context works the same on either kind of card (docs/cards.md).
//
// Every member may be called from any thread, the destructor from one when no other uses the context. In a process that
// was forked from the one that opened it every call throws Error, and the destructor touches nothing.
#pragma once

#include <spyre/export.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <spyre/allocator.hpp>
#include <spyre/host_copy.hpp>
#include <spyre/host_memory.hpp>
#include <spyre/job.hpp>
#include <spyre/kernel.hpp>
#include <spyre/options.hpp>
#include <spyre/recovery.hpp>
#include <spyre/stream.hpp>
#include <spyre/tensor.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace spyre::inline v0 {

class SPYRE_API Context {
 public:
  // As the head of this file says. Throws Error naming what was refused, or the step that failed.
  static std::unique_ptr<Context> open(const ContextOptions& options = {});
  // Another function of this context's embedded card: `card` and `device_index` of the options are not given. The card
  // ends with the last of its contexts. Throws Error: the context is attached, the function has an owner, or the card
  // has no such function.
  std::unique_ptr<Context> open_beside(const ContextOptions& options);

  // Ends everything that was launched; nobody is told of what had not ended.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  bool embedded() const;
  // "VF2 of card0", "PF of an embedded card".
  const std::string& device_name() const;

  SpyreAllocator& allocator();
  HostMemory& host_memory();
  SpyreStream default_stream();
  // Pools of 32 per priority, handed out in turn, as in PyTorch: the 33rd stream of a priority is the first one again.
  // Two that share a stream run in the order of their launches, and an error of one is an error of both.
  SpyreStream stream(StreamPriority priority = StreamPriority::Low);
  // Streams for functions of the host (LaunchHost), so that theirs do not keep those of kernels waiting: handed out one
  // after the other, ids 65 and up, low priority. TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS says how many, 1 to 8 (4 without
  // it). Throws InvalidArgument when it says anything else.
  SpyreStream host_stream();
  // One of them by its id, 0 … 72. Throws InvalidArgument.
  SpyreStream stream_by_id(unsigned id);
  // The stream that this thread has chosen for this context, the default stream until it chooses one. Nothing of this
  // library takes it by itself: what takes no stream uses the default stream.
  SpyreStream current_stream();
  // Returns the one before. Throws InvalidArgument for a stream of another context.
  SpyreStream set_current_stream(SpyreStream stream);

  // SpyreStream::Synchronize() of every stream of this context that was ever handed out. All are waited for; throws the
  // first error of the one with the lowest id.
  void Synchronize();
  // The same with a bound; TimeoutError leaves everything running.
  void Synchronize(std::chrono::steady_clock::time_point deadline);

  // A kernel that belongs to the firmware: "matmul", "add", … Looked for in the folder SPYRE_KERNELS, else in "kernels"
  // beside the firmware. Kernel::load() reads any other. Throws Error, InvalidArgument.
  std::shared_ptr<const Kernel> kernel(std::string_view name) const;
  // Loads the plan's binaries and waits until they are on the card, so that any stream may launch them. Waits for no
  // launch: a stream of the library's own sends them. Again after a reset of the function. Throws OutOfMemory, and
  // StreamError when they did not arrive: the plan is not loaded then.
  void load(ExecutionPlan& plan);

  // Uninitialised, as SpyreTensor::empty().
  SpyreTensor empty(DataType dtype, std::vector<std::int64_t> shape,
                    std::optional<DeviceType> device_dtype = std::nullopt);
  SpyreTensor empty(DataType dtype, std::vector<std::int64_t> shape, const TensorOptions& options);

  // ---- copies: PyTorch's copy_, between host and card, or inside of the card. Views on either side, any strides on
  // the host, converted between the formats. What is moved is what the views name: a stick of which a view names a part
  // keeps the rest. A smaller source is repeated along its dimensions of size 1, and along missing ones in front.
  // Ordered on the stream (default: the default stream). All throw before anything is moved: InvalidArgument naming
  // "destination", "source" or "dtype" (float64 and what has no conversion), InvalidAllocation, CopyNeeded (a view in
  // thousands of pieces: copy the whole tensor), OutOfMemory, Error, StreamError.

  // Host → card. Converts on this thread; `source` may be reused when this returns, and the tensor is ready when the
  // stream has come so far. Waits for the stream when sticks keep a part of theirs, and when pinned memory has no room
  // for the copy (a tensor of more than 64 MiB, or of half of the window): a thread of the driver converts it then,
  // piece by piece.
  void copy(const SpyreTensor& destination, const ConstHostTensor& source);
  void copy(const SpyreTensor& destination, const ConstHostTensor& source, SpyreStream stream);
  // Card → host. Returns at once; a thread of the driver converts when the stream has come so far. The destination's
  // memory belongs to the copy until Synchronize() of the stream or the result's wait() returns, or the context ended.
  // Copies under way hold 256 MiB at most: a further one waits for them.
  HostCopy copy(const HostTensor& destination, const SpyreTensor& source);
  HostCopy copy(const HostTensor& destination, const SpyreTensor& source, SpyreStream stream);
  // Card → card, tensors of this context. Views of one tensor may overlap: as if the source were read first.
  void copy(const SpyreTensor& destination, const SpyreTensor& source);
  void copy(const SpyreTensor& destination, const SpyreTensor& source, SpyreStream stream);

  // A new tensor with the elements of `source`, with default options row-major and in default layout. Padding is zero.
  SpyreTensor to_device(const ConstHostTensor& source, std::optional<DeviceType> device_dtype = std::nullopt);
  SpyreTensor to_device(const ConstHostTensor& source, SpyreStream stream,
                        std::optional<DeviceType> device_dtype = std::nullopt);
  SpyreTensor to_device(const ConstHostTensor& source, const TensorOptions& options);
  SpyreTensor to_device(const ConstHostTensor& source, const TensorOptions& options, SpyreStream stream);
  // copy() for a source of the tensor's shape.
  void copy_to_device(const ConstHostTensor& source, const SpyreTensor& tensor);
  void copy_to_device(const ConstHostTensor& source, const SpyreTensor& tensor, SpyreStream stream);

  // copy() for a destination of the tensor's shape, which is there when this returns; throws what Synchronize throws,
  // and InvalidArgument (shape).
  void to_host(const SpyreTensor& tensor, const HostTensor& destination);
  void to_host(const SpyreTensor& tensor, const HostTensor& destination, SpyreStream stream);

  // The elements of a tensor, or view, in new memory, row-major, in the layout of this dim_order: another stick
  // dimension. Padding is zero.
  SpyreTensor restickify(const SpyreTensor& source, std::optional<std::vector<std::int64_t>> dim_order = std::nullopt);
  SpyreTensor restickify(const SpyreTensor& source, std::optional<std::vector<std::int64_t>> dim_order,
                         SpyreStream stream);
  // The tensor itself when kernels take it (a whole tensor in default layout and not interleaved); else a copy that
  // they take.
  SpyreTensor contiguous(const SpyreTensor& tensor);
  SpyreTensor contiguous(const SpyreTensor& tensor, SpyreStream stream);

  // Brings this context back after a failure. Escalates from `from` (empty: the lowest reset level that can help) until
  // everything works again. From the function reset on tensors from before are refused (InvalidAllocation, LostInReset)
  // and plans have to be loaded again. With nothing to repair it does nothing. Throws Error when no reset level helped.
  RecoveryReport recover(std::optional<ResetLevel> from = std::nullopt);

 private:
  friend struct Inside;
  struct Impl;
  explicit Context(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Context::Synchronize() of every context of this process, in the order in which they were opened. All are waited for;
// throws the first error.
SPYRE_API void SynchronizeAll();

// Chooses a stream for this thread, and the one before again at the end of the block.
class StreamGuard {
 public:
  StreamGuard(Context& context, SpyreStream stream) : context_(context), before_(context.set_current_stream(stream)) {}
  ~StreamGuard() { (void)context_.set_current_stream(before_); }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Context& context_;
  SpyreStream before_;
};

}  // namespace spyre::inline v0
