// SPDX-License-Identifier: Apache-2.0
// What stands behind the classes of the API (include/spyre): the driver's own objects. Everything that the library
// needs of a public object it gets here.
#pragma once

#include <memory>
#include <spyre/spyre.hpp>
#include <utility>

#include "host_driver/frontend/context.hpp"
#include "host_driver/ops/operations.hpp"
#include "host_driver/runtime/captured_steps.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/prepared_launches.hpp"

namespace spyre::inline v0 {

struct DeviceStorage::Impl {
  std::shared_ptr<const svp::DeviceStorage> storage;
};
struct SpyreAllocator::Impl {
  svp::SpyreAllocator allocator;
};
struct SpyreTensor::Impl {
  svp::SpyreTensor tensor;
};
struct PinnedMemory::Impl {
  svp::PinnedBuffer buffer;
};
struct HostMemory::Impl {
  svp::Runtime& runtime;
};
struct HostCopy::Impl {
  std::shared_ptr<svp::HostTask> task;
};
// One of a capture stands for what the latest replay has recorded.
struct Event::Impl {
  std::shared_ptr<svp::Event> event;
  std::shared_ptr<svp::CapturedEvent> captured;

  std::shared_ptr<svp::Event> now() const { return captured != nullptr ? captured->latest() : event; }
};
struct PreparedLaunches::Impl {
  std::shared_ptr<svp::PreparedLaunches> launches;
};
struct Kernel::Impl {
  std::shared_ptr<const svp::Kernel> kernel;
};
struct CompiledKernel::Impl {
  svp::CompiledKernel kernel;
};
struct Job::Impl {
  svp::Job job;
};
struct ExecutionPlan::Impl {
  svp::ExecutionPlan plan;
};
struct Context::Impl {
  std::unique_ptr<svp::Context> context;
  SpyreAllocator allocator;
  std::unique_ptr<HostMemory> host_memory;
  std::unique_ptr<svp::Operations> operations;  // ends before the context
};

struct Inside {
  static PinnedMemory pinned(svp::PinnedBuffer inner) {
    return PinnedMemory(std::make_unique<PinnedMemory::Impl>(PinnedMemory::Impl{std::move(inner)}));
  }
  static std::unique_ptr<HostMemory> host_memory(svp::Runtime& inner) {
    return std::unique_ptr<HostMemory>(new HostMemory(std::make_unique<HostMemory::Impl>(HostMemory::Impl{inner})));
  }
  static std::unique_ptr<Context> context(std::unique_ptr<svp::Context> inner);
  static SpyreAllocator allocator(svp::SpyreAllocator& inner) {
    return SpyreAllocator(std::make_shared<SpyreAllocator::Impl>(SpyreAllocator::Impl{inner}));
  }
  static std::shared_ptr<const DeviceStorage> storage(std::shared_ptr<const svp::DeviceStorage> inner) {
    return std::shared_ptr<const DeviceStorage>(
        new DeviceStorage(std::make_shared<DeviceStorage::Impl>(DeviceStorage::Impl{std::move(inner)})));
  }
  static SpyreTensor tensor(svp::SpyreTensor inner) {
    return SpyreTensor(std::make_shared<SpyreTensor::Impl>(SpyreTensor::Impl{std::move(inner)}));
  }
  static HostCopy host_copy(std::shared_ptr<svp::HostTask> inner) {
    return inner != nullptr ? HostCopy(std::make_shared<HostCopy::Impl>(HostCopy::Impl{std::move(inner)})) : HostCopy();
  }
  static PreparedLaunches prepared(std::shared_ptr<svp::PreparedLaunches> inner) {
    return PreparedLaunches(std::make_shared<PreparedLaunches::Impl>(PreparedLaunches::Impl{std::move(inner)}));
  }
  static Event event(std::shared_ptr<svp::Event> inner) {
    return Event(std::make_shared<Event::Impl>(Event::Impl{std::move(inner), nullptr}));
  }
  static Event event(std::shared_ptr<svp::CapturedEvent> inner) {
    return Event(std::make_shared<Event::Impl>(Event::Impl{nullptr, std::move(inner)}));
  }
  // Null: not recorded.
  static std::shared_ptr<svp::Event> of(const Event& event);
  // Null: not an event of a capture.
  static std::shared_ptr<svp::CapturedEvent> captured(const Event& event);
  static std::shared_ptr<const Kernel> kernel(std::shared_ptr<const svp::Kernel> inner) {
    return std::shared_ptr<const Kernel>(new Kernel(std::make_shared<Kernel::Impl>(Kernel::Impl{std::move(inner)})));
  }
  static Job job(svp::Job inner) { return Job(std::make_shared<Job::Impl>(Job::Impl{std::move(inner)})); }
  // A public stream is the address of the driver's and nothing else.
  static SpyreStream stream(svp::FlexStream& inner) {
    return SpyreStream(reinterpret_cast<SpyreStream::Impl*>(&inner));
  }

  static svp::FlexStream& of(const SpyreStream& stream) { return *reinterpret_cast<svp::FlexStream*>(stream.impl_); }
  static svp::SpyreAllocator& of(SpyreAllocator& allocator) { return allocator.impl_->allocator; }
  static const std::shared_ptr<const svp::DeviceStorage>& of(const DeviceStorage& storage) {
    return storage.impl_->storage;
  }
  static const std::shared_ptr<const svp::Kernel>& of(const Kernel& kernel) { return kernel.impl_->kernel; }
  static svp::Operations& operations(Context& context) { return *context.impl_->operations; }
  static const svp::CompiledKernel& of(const CompiledKernel& kernel) { return kernel.impl_->kernel; }
  static const svp::Job& of(const Job& job) { return job.impl_->job; }
  static svp::ExecutionPlan& of(ExecutionPlan& plan) { return plan.impl_->plan; }
  static const svp::ExecutionPlan& of(const ExecutionPlan& plan) { return plan.impl_->plan; }
  // Of a default-constructed one: a tensor without memory.
  static const svp::SpyreTensor& of(const SpyreTensor& tensor);
};

}  // namespace spyre::inline v0
