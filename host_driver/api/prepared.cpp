// SPDX-License-Identifier: Apache-2.0
// Prepared launches and captures.
#include <spyre/prepared.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "host_driver/api/inside.hpp"
#include "host_driver/base/process.hpp"
#include "host_driver/runtime/stream_records.hpp"

namespace spyre::inline v0 {

struct StreamCapture::Impl {
  struct Captured {
    Job job;
    std::vector<SpyreTensor> tensors;
    LaunchOptions options;
  };
  using Step = std::variant<Captured, svp::RecordStep, svp::WaitStep, svp::HostStep>;
  SpyreStream stream;
  std::vector<Step> steps;
  std::size_t launches = 0;
  std::size_t events = 0;
  std::size_t slots = 0;
};

namespace {

// Tensors that a launch holds, and what the caller wants kept.
struct Kept {
  std::vector<SpyreTensor> tensors;
  std::shared_ptr<const void> callers;
};

void write_arguments(bool device_program, std::span<const SpyreTensor> tensors, std::vector<svp::Argument>& arguments) {
  svp::require_operands(tensors.size());
  for (const SpyreTensor& tensor : tensors) arguments.push_back(svp::argument_for(device_program, Inside::of(tensor)));
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

std::size_t PreparedLaunches::events() const { return impl_ != nullptr ? impl_->launches->events() : 0; }
std::size_t PreparedLaunches::slots() const { return impl_ != nullptr ? impl_->launches->slots() : 0; }

std::uint64_t PreparedLaunches::Launch(const SpyreStream& stream) const {
  if (impl_ == nullptr) refuse_empty();
  return Inside::of(stream).Launch(*impl_->launches);
}

Replay PreparedLaunches::Launch(const SpyreStream& stream, std::span<const Event> slots) const {
  if (impl_ == nullptr) refuse_empty();
  std::vector<std::shared_ptr<svp::Event>> awaited, recorded;
  for (const Event& event : slots) awaited.push_back(Inside::of(event));
  Replay replay;
  replay.launch = Inside::of(stream).Launch(*impl_->launches, awaited, &recorded);
  for (auto& event : recorded) replay.events.push_back(Inside::event(std::move(event)));
  return replay;
}

std::uint64_t PreparedLaunches::Patch(const SpyreStream& stream, std::size_t launch,
                                      std::span<const SpyreTensor> tensors) const {
  if (impl_ == nullptr) refuse_empty();
  std::vector<svp::Argument> arguments;
  write_arguments(impl_->launches->is_device_program(launch), tensors, arguments);
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
  impl_->steps.emplace_back(Impl::Captured{job, {tensors.begin(), tensors.end()}, options});
  return impl_->launches++;
}

Event StreamCapture::Record() {
  auto event = std::make_shared<svp::CapturedEvent>();
  impl_->steps.emplace_back(svp::RecordStep{event});
  ++impl_->events;
  return Inside::event(std::move(event));
}

void StreamCapture::Wait(const Event& event) {
  if (auto captured = Inside::captured(event)) {
    impl_->steps.emplace_back(svp::WaitStep{std::move(captured)});
  } else if (auto recorded = Inside::of(event)) {
    impl_->steps.emplace_back(svp::WaitStep{std::move(recorded)});
  }
}

void StreamCapture::Wait(const SharedEvent& event) { impl_->steps.emplace_back(svp::WaitStep{event}); }

std::size_t StreamCapture::WaitSlot() {
  impl_->steps.emplace_back(svp::WaitStep{svp::WaitSlot{}});
  return impl_->slots++;
}

void StreamCapture::LaunchHost(std::function<void()> function) {
  impl_->steps.emplace_back(svp::HostStep{std::make_shared<const std::function<void()>>(std::move(function))});
}

std::size_t StreamCapture::Add(const StreamCapture& child) {
  const std::size_t first = impl_->launches;
  const Impl added = *child.impl_;  // a copy: the child may be this one
  impl_->steps.insert(impl_->steps.end(), added.steps.begin(), added.steps.end());
  impl_->launches += added.launches;
  impl_->events += added.events;
  impl_->slots += added.slots;
  return first;
}

std::size_t StreamCapture::size() const { return impl_->launches; }
std::size_t StreamCapture::events() const { return impl_->events; }
std::size_t StreamCapture::slots() const { return impl_->slots; }

PreparedLaunches StreamCapture::Instantiate() const {
  std::vector<std::vector<svp::Argument>> arguments(impl_->launches);
  std::vector<svp::CapturedStep> steps;
  std::size_t launch = 0;
  const auto request_of = [&](const Impl::Captured& one) {
    std::vector<svp::Argument>& room = arguments[launch++];
    write_arguments(Inside::of(one.job).device_program() != nullptr, one.tensors, room);
    auto kept = std::make_shared<const Kept>(Kept{one.tensors, one.options.keep_alive});
    return svp::LaunchRequest{
        .job = &Inside::of(one.job),
        .arguments = room,
        .options = {.allow_tiled_launch = one.options.allow_tiled_launch && svp::allow_tiled_launch(),
                    .core_mask = one.options.core_mask,
                    .budget_slices = one.options.budget_slices,
                    .pipeline_barrier = one.options.pipeline_barrier,
                    .keep_alive = std::move(kept)}};
  };
  for (const Impl::Step& step : impl_->steps) {
    if (const auto* const one = std::get_if<Impl::Captured>(&step)) steps.emplace_back(request_of(*one));
    if (const auto* const record = std::get_if<svp::RecordStep>(&step)) steps.emplace_back(*record);
    if (const auto* const wait = std::get_if<svp::WaitStep>(&step)) steps.emplace_back(*wait);
    if (const auto* const host = std::get_if<svp::HostStep>(&step)) steps.emplace_back(*host);
  }
  return Inside::prepared(Inside::of(impl_->stream).Prepare(steps));
}

PreparedLaunches Prepare(const SpyreStream& stream, const Job& job, std::span<const SpyreTensor> tensors,
                         const LaunchOptions& options) {
  StreamCapture capture(stream);
  capture.Launch(job, tensors, options);
  return capture.Instantiate();
}

void SpyreStream::BeginCapture() { (void)Inside::of(*this).BeginCapture(); }
PreparedLaunches SpyreStream::EndCapture() { return Inside::prepared(Inside::of(*this).EndCapture()); }

struct CaptureScope::Impl {
  SpyreStream stream;
  std::shared_ptr<svp::ChannelLink> link;
  std::shared_ptr<const void> capture;
  svp::OwnerProcess process{};
};

CaptureScope::CaptureScope(const SpyreStream& stream)
    : impl_(std::make_unique<Impl>(Impl{stream, Inside::of(stream).link(), nullptr, {}})) {
  impl_->capture = Inside::of(stream).BeginCapture();
}
CaptureScope::~CaptureScope() {
  if (impl_->process.is_this() && !impl_->link->is_cut())
    (void)Inside::of(impl_->stream).AbandonCapture(impl_->capture);
}
PreparedLaunches CaptureScope::End() { return impl_->stream.EndCapture(); }

}  // namespace spyre::inline v0
