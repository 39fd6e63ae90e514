// SPDX-License-Identifier: Apache-2.0
// Takes the place of libflex's open_device.cpp.
#include "tests/bench/card/flex_device.hpp"

#include <utility>

#include "host_driver/compat/flex/2026-08-21/open_device.hpp"

namespace bench {

namespace {

svp::Context* shared = nullptr;

}  // namespace

void share_with_flex(svp::Context* context) { shared = context; }

}  // namespace bench

namespace flex::detail {

namespace {

// `owner` ends the device.
OpenedDevice of(std::shared_ptr<void> owner, svp::Context& context) {
  return {std::move(owner), &context.runtime(), context.device_name(), [&context] { return context.engine(); }};
}

}  // namespace

int count_devices() { return 1; }

OpenedDevice open_device(int /*index*/) {
  if (bench::shared != nullptr) return of(nullptr, *bench::shared);
  svp::ContextOptions options;
  options.card.emplace().virtual_functions = 0;
  options.card->sole_function = 0;
  const std::shared_ptr<svp::Context> context = svp::Context::open(std::move(options));
  return of(context, *context);
}

}  // namespace flex::detail
