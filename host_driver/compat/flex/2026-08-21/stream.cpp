// SPDX-License-Identifier: Apache-2.0
// RuntimeStream.
#include <flex/flex.hpp>
#include <utility>

#include "host_driver/compat/flex/2026-08-21/context.hpp"
#include "host_driver/compat/flex/2026-08-21/guarded.hpp"
#include "host_driver/compat/flex/2026-08-21/transfers.hpp"

namespace flex {
namespace {

template <typename Params>
Params& required(Params* params) {
  if (params == nullptr) detail::refuse("params", "there are none", "make them with the create function");
  return *params;
}

}  // namespace

RuntimeStream::RuntimeStream(std::shared_ptr<detail::Context> context, unsigned id)
    : context_(std::move(context)), id_(id) {}
RuntimeStream::~RuntimeStream() = default;

void RuntimeStream::launchOperationH2D(DmaParams* params) {
  detail::guarded([&] {
    const auto call = context_->enter();
    context_->on_stream(call, id_, [&] { detail::send(*context_, call, id_, required(params)); });
  });
}

void RuntimeStream::launchOperationD2H(DmaParams* params) {
  detail::guarded([&] {
    const auto call = context_->enter();
    context_->on_stream(call, id_, [&] { detail::receive(*context_, call, id_, required(params)); });
  });
}

void RuntimeStream::launchOperationCompute(ComputeParams* params) {
  detail::guarded([&] {
    const auto call = context_->enter();
    context_->on_stream(call, id_, [&] { detail::compute(*context_, call, id_, required(params)); });
  });
}

// Not inside of a call: the callback is the program's and may do anything.
void RuntimeStream::launchOperationHostCallback(HostCallbackParams* params) {
  detail::guarded([&] {
    const HostCallbackParams& given = required(params);
    if (!detail::Access::has_callback(given)) detail::refuse("callback", "it is empty", "give a function");
    const auto call = context_->enter();
    context_->on_stream(call, id_, [&] {
      if (detail::Access::barrier(given)) {
        call.stream(id_).Synchronize();
      } else if (const auto error = call.stream(id_).error()) {
        throw svp::StreamError(*error);
      }
    });
  });
  detail::Access::call(*params);
}

void RuntimeStream::fillAsync(const CompositeAddress* address, double value, DataFormats format, bool /*use_dmai*/) {
  detail::guarded([&] {
    const auto call = context_->enter();
    context_->on_stream(call, id_, [&] { detail::fill(*context_, call, id_, address, value, format); });
  });
}

void RuntimeStream::synchronize() {
  detail::guarded([&] {
    const auto call = context_->enter();
    context_->on_stream(call, id_, [&] { call.stream(id_).Synchronize(); });
  });
  context_->completions()->run_of(id_);
}

bool RuntimeStream::query() {
  return detail::guarded([&] {
    const auto call = context_->enter();
    return call.stream(id_).Query();
  });
}

bool RuntimeStream::needsShutdown() { return context_->failed(id_); }

}  // namespace flex
