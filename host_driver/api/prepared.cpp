// SPDX-License-Identifier: Apache-2.0
// Prepared launches and captures.
#include <spyre/prepared.hpp>
#include <utility>
#include <vector>

#include "host_driver/api/inside.hpp"

namespace spyre::inline v0 {

struct StreamCapture::Impl {
  struct Captured {
    Job job;
    std::vector<SpyreTensor> tensors;
    LaunchOptions options;
  };
  SpyreStream stream;
  std::vector<Captured> launches;
};

namespace {

// Tensors that a launch holds, and what the caller wants kept.
struct Kept {
  std::vector<SpyreTensor> tensors;
  std::shared_ptr<const void> callers;
};

void write_arguments(std::span<const SpyreTensor> tensors, std::vector<svp::Argument>& arguments) {
  svp::require_operands(tensors.size());
  for (const SpyreTensor& tensor : tensors) arguments.push_back(Inside::of(tensor).argument());
}

}  // namespace

PreparedLaunches::PreparedLaunches() = default;
PreparedLaunches::PreparedLaunches(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

std::size_t PreparedLaunches::size() const { return impl_ != nullptr ? impl_->launches->size() : 0; }

namespace {

[[noreturn]] void refuse_empty() {
  throw InvalidArgument("prepared", "nothing was prepared", "make it with Prepare() or StreamCapture::Instantiate()");
}

}  // namespace

std::uint64_t PreparedLaunches::Launch(const SpyreStream& stream) const {
  if (impl_ == nullptr) refuse_empty();
  return Inside::of(stream).Launch(*impl_->launches);
}

std::uint64_t PreparedLaunches::Patch(const SpyreStream& stream, std::size_t launch,
                                      std::span<const SpyreTensor> tensors) const {
  if (impl_ == nullptr) refuse_empty();
  std::vector<svp::Argument> arguments;
  write_arguments(tensors, arguments);
  auto kept = std::make_shared<const Kept>(Kept{{tensors.begin(), tensors.end()}, {}});
  return Inside::of(stream).Patch(*impl_->launches, launch, arguments, std::move(kept));
}

StreamCapture::StreamCapture(const SpyreStream& stream) : impl_(std::make_unique<Impl>(Impl{stream, {}})) {}
StreamCapture::StreamCapture(const StreamCapture& other) : impl_(std::make_unique<Impl>(*other.impl_)) {}
StreamCapture::StreamCapture(StreamCapture&& other) noexcept = default;
StreamCapture& StreamCapture::operator=(StreamCapture other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
StreamCapture::~StreamCapture() = default;

std::size_t StreamCapture::Launch(const Job& job, std::span<const SpyreTensor> tensors, const LaunchOptions& options) {
  impl_->launches.push_back({job, {tensors.begin(), tensors.end()}, options});
  return impl_->launches.size() - 1;
}

std::size_t StreamCapture::Add(const StreamCapture& child) {
  const std::size_t first = impl_->launches.size();
  const auto added = child.impl_->launches;  // a copy: the child may be this one
  impl_->launches.insert(impl_->launches.end(), added.begin(), added.end());
  return first;
}

std::size_t StreamCapture::size() const { return impl_->launches.size(); }

PreparedLaunches StreamCapture::Instantiate() const {
  std::vector<std::vector<svp::Argument>> arguments(impl_->launches.size());
  std::vector<svp::LaunchRequest> requests;
  for (std::size_t i = 0; i < impl_->launches.size(); ++i) {
    const Impl::Captured& one = impl_->launches[i];
    write_arguments(one.tensors, arguments[i]);
    auto kept = std::make_shared<const Kept>(Kept{one.tensors, one.options.keep_alive});
    requests.push_back({.job = &Inside::of(one.job),
                        .arguments = arguments[i],
                        .options = {.allow_tiled_launch = one.options.allow_tiled_launch && svp::allow_tiled_launch(),
                                    .core_mask = one.options.core_mask,
                                    .budget_slices = one.options.budget_slices,
                                    .keep_alive = std::move(kept)}});
  }
  return Inside::prepared(Inside::of(impl_->stream).Prepare(requests));
}

PreparedLaunches Prepare(const SpyreStream& stream, const Job& job, std::span<const SpyreTensor> tensors,
                         const LaunchOptions& options) {
  StreamCapture capture(stream);
  capture.Launch(job, tensors, options);
  return capture.Instantiate();
}

}  // namespace spyre::inline v0
