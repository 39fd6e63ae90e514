// SPDX-License-Identifier: Apache-2.0
// svp::Context: everything a program needs, in one object, with the inside open to this repository's own programs. What
// others get is spyre::Context (include/spyre/context.hpp), which holds one. Context::open() takes the device that
// the environment names, or boots a card in this process.
//
//   FLEX_DEVICE=PF | VF   the device with the index LOCAL_RANK (0) among the running cards (devices.hpp): attached. The
//                         function is this process's own until the context ends.
//   FLEX_DEVICE=MOCK      a card of its own, embedded
//   not set               likewise
//
// What the code says wins over the environment: options with a card, or with a function, boot a card of their own; a
// device_index is taken instead of LOCAL_RANK. A context works the same on either kind of card.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "host_driver/device/card_options.hpp"
#include "host_driver/discovery/enumeration.hpp"
#include "host_driver/frontend/spyre_allocator.hpp"
#include "host_driver/frontend/spyre_stream.hpp"
#include "host_driver/frontend/spyre_tensor.hpp"
#include "host_driver/frontend/tensor_copy.hpp"
#include "host_driver/runtime/runtime.hpp"

namespace svp {

class Card;

struct ContextOptions {
  // An embedded card like this, whatever the environment says. Empty: the environment decides; an embedded card then
  // has no function but this context's, which has all its memory. Give options for a card that several contexts share.
  std::optional<CardOptions> card{};
  // Of an embedded card. 0: the physical function; n: virtual function n, whatever the environment says.
  unsigned function = 0;
  // Of the running cards (FLEX_DEVICE not set: counted as PF). Not together with the two above.
  std::optional<std::size_t> device_index{};
  OpenOptions device{};
  RuntimeOptions runtime{};
};

class Context {
 public:
  // As the head of this file says. Throws Error naming what was refused, or the step that failed.
  static std::unique_ptr<Context> open(ContextOptions options = {});
  // Another function of an embedded card; the card may be shared by several contexts.
  static std::unique_ptr<Context> open(std::shared_ptr<Card> card, ContextOptions options = {});

  // The embedded card. An attached one belongs to its broker: both throw Error then.
  Card& card() { return *shared_card(); }
  const std::shared_ptr<Card>& shared_card();
  bool embedded() const { return card_ != nullptr; }
  // "VF2 of card0", "PF of an embedded card".
  const std::string& device_name() const { return device_name_; }
  Runtime& runtime() { return runtime_; }
  Device& device() { return runtime_.device(); }
  SpyreAllocator& allocator() { return allocator_; }
  HostMemory& host_memory() { return runtime_.host_memory(); }

  SpyreStream default_stream() { return SpyreStream(runtime_.default_stream()); }
  // Pools of 32 per priority, handed out in turn, as in PyTorch: the 33rd stream of a priority is the first one again.
  // Two that share a stream run in the order of their launches, and an error of one is an error of both.
  SpyreStream stream(StreamPriority priority = StreamPriority::Low) {
    return SpyreStream(runtime_.next_stream(priority));
  }

  // A kernel that was built with the firmware: "matmul", "add", … Looked for in SPYRE_KERNELS, else in "kernels" beside
  // the firmware. Throws Error, InvalidArgument.
  std::shared_ptr<const Kernel> kernel(std::string_view name) const;

  // The kernel that executes device programs, "engine" among them. The same one at every call. Throws as kernel().
  std::shared_ptr<const Kernel> engine();

  // Brings this context back after a failure, at the lowest reset level that helps (Runtime::recover()). Handles of
  // tensors from before a function reset are refused afterwards; plans have to be loaded again.
  RecoveryReport recover(std::optional<ResetLevel> from = std::nullopt) { return runtime_.recover(from); }

  // Loads the plan's binaries and waits until they are on the card, so that any stream may launch them.
  void load(ExecutionPlan& plan);

  // The functions of spyre_tensor.hpp and tensor_copy.hpp on this context.
  SpyreTensor empty(DataType dtype, std::vector<std::int64_t> shape,
                    std::optional<DeviceType> device_dtype = std::nullopt) {
    return SpyreTensor::empty(allocator_, dtype, std::move(shape), device_dtype);
  }
  SpyreTensor empty(DataType dtype, std::vector<std::int64_t> shape, const TensorOptions& options) {
    return SpyreTensor::empty(allocator_, dtype, std::move(shape), options);
  }
  SpyreTensor to_device(const ConstHostTensor& source, std::optional<DeviceType> device_dtype = std::nullopt) {
    return to_device(source, default_stream(), device_dtype);
  }
  SpyreTensor to_device(const ConstHostTensor& source, SpyreStream stream,
                        std::optional<DeviceType> device_dtype = std::nullopt) {
    return to_device(source, TensorOptions{.device_dtype = device_dtype}, stream);
  }
  SpyreTensor to_device(const ConstHostTensor& source, const TensorOptions& options) {
    return to_device(source, options, default_stream());
  }
  SpyreTensor to_device(const ConstHostTensor& source, const TensorOptions& options, SpyreStream stream) {
    return svp::to_device(runtime_, allocator_, stream, source, options);
  }
  // Between any two tensors; the result of the second is null when there is nothing to wait for.
  void copy(const SpyreTensor& destination, const ConstHostTensor& source, SpyreStream stream) {
    svp::copy(runtime_, stream, destination, source);
  }
  std::shared_ptr<HostTask> copy(const HostTensor& destination, const SpyreTensor& source, SpyreStream stream) {
    return svp::copy(runtime_, stream, destination, source);
  }
  void copy(const SpyreTensor& destination, const SpyreTensor& source, SpyreStream stream) {
    svp::copy(runtime_, stream, destination, source);
  }
  SpyreTensor restickify(const SpyreTensor& source, std::optional<std::vector<std::int64_t>> dim_order,
                         SpyreStream stream) {
    return svp::restickify(runtime_, allocator_, stream, source, std::move(dim_order));
  }
  SpyreTensor contiguous(const SpyreTensor& source, SpyreStream stream) {
    return svp::contiguous(runtime_, allocator_, stream, source);
  }
  void to_host(const SpyreTensor& tensor, const HostTensor& destination) {
    to_host(tensor, destination, default_stream());
  }
  void to_host(const SpyreTensor& tensor, const HostTensor& destination, SpyreStream stream) {
    svp::to_host(runtime_, stream, tensor, destination);
  }

 private:
  struct Place;
  static Place attach(const EnumeratedDevice& device, const OpenOptions& options);
  Context(Place place, RuntimeOptions options);

  std::shared_ptr<Card> card_;  // empty: attached
  std::string device_name_;
  std::filesystem::path kernels_;
  std::mutex engine_mutex_;
  std::shared_ptr<const Kernel> engine_;
  Runtime runtime_;
  SpyreAllocator allocator_;
};

}  // namespace svp
