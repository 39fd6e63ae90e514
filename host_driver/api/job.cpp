// SPDX-License-Identifier: Apache-2.0
// Kernels, jobs and plans.
#include "host_driver/api/inside.hpp"

namespace spyre::inline v0 {

Kernel::Kernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

std::shared_ptr<const Kernel> Kernel::load(const std::filesystem::path& image, const std::filesystem::path& metadata) {
  return Inside::kernel(svp::Kernel::load(image, metadata));
}
std::shared_ptr<const Kernel> Kernel::from_memory(std::vector<std::byte> image, std::string_view metadata) {
  return Inside::kernel(svp::Kernel::from_memory(std::move(image), metadata));
}

const std::string& Kernel::name() const { return impl_->kernel->name(); }
std::vector<KernelOperand> Kernel::operands() const {
  const svp::KernelMetadata& metadata = impl_->kernel->metadata();
  std::vector<KernelOperand> result;
  for (const svp::KernelOperand& operand : metadata.operands) {
    KernelOperand& added = result.emplace_back();
    added.name = operand.name;
    added.reads = (operand.access & wire::kSegmentRead) != 0;
    added.writes = operand.writes();
    added.dtype = operand.dtype;
    for (const std::uint32_t dimension : operand.shape) added.shape.push_back(metadata.dimensions[dimension]);
  }
  return result;
}
std::vector<std::string> Kernel::dimensions() const { return impl_->kernel->metadata().dimensions; }
std::size_t Kernel::image_bytes() const { return impl_->kernel->image().size(); }

namespace {

const svp::Kernel& require(const std::shared_ptr<const Kernel>& kernel) {
  if (kernel == nullptr) throw InvalidArgument("kernel", "no kernel was given", "load one (Kernel::load)");
  return *Inside::of(*kernel);
}

}  // namespace

CompiledKernel::CompiledKernel(std::shared_ptr<const Kernel> kernel, const DimensionExtents& extents) {
  (void)require(kernel);
  impl_ = std::make_shared<Impl>(Impl{svp::CompiledKernel(Inside::of(*kernel), extents)});
  kernel_ = std::move(kernel);
}
std::vector<std::int64_t> CompiledKernel::extents() const {
  const auto extents = impl_->kernel.extents();
  return {extents.begin(), extents.end()};
}
std::vector<std::int64_t> CompiledKernel::operand_shape(std::size_t operand) const {
  const auto shapes = impl_->kernel.operand_shapes();
  if (operand >= shapes.size()) {
    throw InvalidArgument("operand",
                          "kernel " + kernel_->name() + " has " + std::to_string(shapes.size()) + " operands, not " +
                              std::to_string(operand) + " and more",
                          "count from 0");
  }
  const auto extents = shapes[operand].extents();
  return {extents.begin(), extents.end()};
}

Job::Job(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Job::Job(const CompiledKernel& kernel) : impl_(std::make_shared<Impl>(Impl{svp::Job(Inside::of(kernel))})) {}
Job::Job(const std::filesystem::path& binary) : impl_(std::make_shared<Impl>(Impl{svp::Job(binary)})) {}
Job Job::to_device(const void* host, AllocationIndex destination, std::uint64_t size, std::uint64_t offset) {
  return Inside::job(svp::Job::to_device(host, destination, size, offset));
}
Job Job::from_device(void* host, AllocationIndex source, std::uint64_t size, std::uint64_t offset) {
  return Inside::job(svp::Job::from_device(host, source, size, offset));
}
Job Job::fill(AllocationIndex destination, std::uint64_t size, std::uint64_t pattern, std::uint64_t offset) {
  return Inside::job(svp::Job::fill(destination, size, pattern, offset));
}
std::shared_ptr<const Kernel> Job::binary() const {
  const auto& inner = impl_->job.binary();
  return inner != nullptr ? Inside::kernel(inner) : nullptr;
}
bool Job::loaded() const { return impl_->job.loaded(); }

ExecutionPlan::ExecutionPlan() : impl_(std::make_unique<Impl>()) {}
ExecutionPlan::ExecutionPlan(const std::vector<Job>& jobs) : ExecutionPlan() {
  for (const Job& job : jobs) add(job);
}
ExecutionPlan::ExecutionPlan(const ExecutionPlan& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
ExecutionPlan::ExecutionPlan(ExecutionPlan&& other) noexcept : impl_(std::make_unique<Impl>()) {
  std::swap(impl_, other.impl_);
}
ExecutionPlan& ExecutionPlan::operator=(ExecutionPlan other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
ExecutionPlan::~ExecutionPlan() = default;

ExecutionPlan ExecutionPlan::from_directory(const std::filesystem::path& directory) {
  ExecutionPlan plan;
  plan.impl_->plan = svp::ExecutionPlan::from_directory(directory);
  return plan;
}
void ExecutionPlan::write_directory(const std::filesystem::path& directory, SymbolicArguments arguments) const {
  impl_->plan.write_directory(directory, arguments);
}

void ExecutionPlan::add(const Job& job) { impl_->plan.add(Inside::of(job)); }
std::vector<Job> ExecutionPlan::jobs() const {
  std::vector<Job> result;
  for (const svp::Job& job : impl_->plan.jobs()) result.push_back(Inside::job(job));
  return result;
}
std::size_t ExecutionPlan::size() const { return impl_->plan.jobs().size(); }
void ExecutionPlan::remove(std::size_t index) { impl_->plan.remove(index); }
bool ExecutionPlan::loaded() const { return impl_->plan.loaded(); }
void ExecutionPlan::unload() { impl_->plan.unload(); }

}  // namespace spyre::inline v0
