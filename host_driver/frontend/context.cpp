// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/context.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "host_driver/discovery/attached_source.hpp"
#include "host_driver/discovery/device_list.hpp"
#include "host_driver/frontend/kernels.hpp"
#include "qemu/embedded_function.hpp"

namespace svp {
namespace {

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// A card of which nobody else is to have a part.
CardOptions own_card_for(unsigned function) {
  CardOptions options;
  options.virtual_functions = function;
  options.sole_function = function;
  return options;
}

}  // namespace

// Where a context's device is, and what belongs to it.
struct Context::Place {
  std::shared_ptr<Card> card;
  std::unique_ptr<DeviceSource> source;
  std::unique_ptr<Device> device;
  std::string name;
  std::filesystem::path kernels;
};

Context::Context(Place place, RuntimeOptions options)
    : card_(std::move(place.card)),
      device_name_(std::move(place.name)),
      kernels_(std::move(place.kernels)),
      runtime_(std::move(place.device), std::move(options), std::move(place.source)),
      allocator_(runtime_) {}

Context::Place Context::attach(const EnumeratedDevice& device, const OpenOptions& options) {
  auto attached = value_or_throw(svp::attach(device, options));
  return {.card = nullptr,
          .source = source_of(attached, device.card, options),
          .device = std::move(attached.device),
          .name = attached.function + " of " + attached.card,
          .kernels = kernels_of_this_build()};
}

std::unique_ptr<Context> Context::open(ContextOptions options) {
  const bool own_card = options.card || options.function != 0;
  if (own_card && options.device_index) {
    throw InvalidArgument("device_index", "a device of the running cards and a card of its own were asked for",
                          "give device_index, or card and function");
  }
  if (!own_card && (options.device_index || is_set(kFlexDeviceVariable))) {
    const auto list = value_or_throw(svp::devices());
    const auto device = value_or_throw(svp::select(list, options.device_index));
    if (list.mode != DeviceMode::Mock) {
      return std::unique_ptr<Context>(new Context(attach(device, options.device), std::move(options.runtime)));
    }
  }
  std::shared_ptr<Card> card = value_or_throw(Card::boot(options.card.value_or(own_card_for(options.function))));
  return open(std::move(card), std::move(options));
}

std::unique_ptr<Context> Context::open(std::shared_ptr<Card> card, ContextOptions options) {
  auto source = function_of(card, options.function, std::move(options.device));
  auto device = value_or_throw(source->open());
  Place place{.card = {},
              .source = std::move(source),
              .device = std::move(device),
              .name = options.function == 0 ? std::string("PF") : "VF" + std::to_string(options.function),
              .kernels = kernels_beside(card->options().firmware)};
  place.name += " of an embedded card";
  place.card = std::move(card);
  return std::unique_ptr<Context>(new Context(std::move(place), std::move(options.runtime)));
}

const std::shared_ptr<Card>& Context::shared_card() {
  if (card_ != nullptr) return card_;
  throw Error({.layer = Layer::Driver,
               .source = "card",
               .outcome = wire::Outcome::Rejected,
               .recoverable = true,
               .next_step = "use spyre reset or spyre stop, or open the context with card options of its own",
               .message = device_name_ + " is attached, not embedded: its card belongs to the card's broker"});
}

std::shared_ptr<const Kernel> Context::kernel(std::string_view name) const { return kernel_named(name, kernels_); }

std::shared_ptr<const Kernel> Context::engine() {
  const std::lock_guard lock(engine_mutex_);
  if (engine_ == nullptr) engine_ = kernel("engine");
  return engine_;
}

// The event, and not the stream, is waited for: loads of several threads share the stream, and the reset of one that
// failed must not look like the end of another one.
void Context::load(ExecutionPlan& plan) {
  FlexStream& stream = runtime_.loading_stream();
  try {
    plan.load(runtime_, stream, plan.needs_engine() ? engine() : nullptr);
    stream.Record()->Synchronize();
  } catch (const StreamError&) {
    plan.unload();  // nobody knows what arrived
    try {
      stream.Reset();  // nobody else could
    } catch (const Error&) {
      // The card does not answer: the next call says so, and recover() resets the stream with the others.
    }
    throw;
  }
}

}  // namespace svp
