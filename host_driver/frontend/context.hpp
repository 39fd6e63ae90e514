// SPDX-License-Identifier: Apache-2.0
// spyre::Context: everything a program needs, in one object. `auto context = spyre::Context::open();` boots a card in
// this process and opens a function of it.
#pragma once

#include <memory>
#include <string_view>

#include "host_driver/device/card.hpp"
#include "host_driver/exec/runtime.hpp"
#include "host_driver/frontend/spyre_allocator.hpp"
#include "host_driver/frontend/spyre_stream.hpp"
#include "host_driver/frontend/spyre_tensor.hpp"

namespace spyre {

struct ContextOptions {
  flex::CardOptions card{};
  // 0: the physical function; n: virtual function n.
  unsigned function = 0;
  flex::OpenOptions device{};
  flex::RuntimeOptions runtime{};
};

class Context {
 public:
  // Boots a card. Throws flex::Error naming the step that failed.
  static std::unique_ptr<Context> open(ContextOptions options = {});
  // Another function of a card that runs; the card may be shared by several contexts.
  static std::unique_ptr<Context> open(std::shared_ptr<flex::Card> card, ContextOptions options = {});

  flex::Card& card() { return *card_; }
  const std::shared_ptr<flex::Card>& shared_card() { return card_; }
  flex::Runtime& runtime() { return runtime_; }
  flex::Device& device() { return runtime_.device(); }
  SpyreAllocator& allocator() { return allocator_; }
  flex::HostMemory& host_memory() { return runtime_.host_memory(); }

  SpyreStream default_stream() { return SpyreStream(runtime_.default_stream()); }
  // Pools of 32 per priority, handed out in turn.
  SpyreStream stream(flex::StreamPriority priority = flex::StreamPriority::Low) {
    return SpyreStream(runtime_.next_stream(priority));
  }

  // A kernel that was built with the firmware: "matmul", "add", … Looked for in SPYRE_KERNELS, else in "kernels" beside
  // the firmware. Throws flex::Error, flex::InvalidArgument.
  std::shared_ptr<const flex::Kernel> kernel(std::string_view name) const;

  // Loads the plan's binaries and waits until they are on the card, so that any stream may launch them.
  void load(flex::ExecutionPlan& plan);

  // The functions of spyre_tensor.hpp on this context; device_dtype empty: the host type's default.
  SpyreTensor empty(flex::DataType dtype, std::vector<std::int64_t> shape,
                    std::optional<flex::DeviceType> device_dtype = std::nullopt) {
    return SpyreTensor::empty(allocator_, dtype, std::move(shape), device_dtype);
  }
  SpyreTensor to_device(const ConstHostTensor& source, std::optional<flex::DeviceType> device_dtype = std::nullopt) {
    return to_device(source, default_stream(), device_dtype);
  }
  SpyreTensor to_device(const ConstHostTensor& source, SpyreStream stream,
                        std::optional<flex::DeviceType> device_dtype = std::nullopt) {
    return spyre::to_device(runtime_, allocator_, stream, source, device_dtype);
  }
  void to_host(const SpyreTensor& tensor, const HostTensor& destination) {
    to_host(tensor, destination, default_stream());
  }
  void to_host(const SpyreTensor& tensor, const HostTensor& destination, SpyreStream stream) {
    spyre::to_host(runtime_, stream, tensor, destination);
  }

 private:
  Context(std::shared_ptr<flex::Card> card, std::unique_ptr<flex::Device> device, flex::RuntimeOptions options);

  std::shared_ptr<flex::Card> card_;
  flex::Runtime runtime_;
  SpyreAllocator allocator_;
};

}  // namespace spyre
