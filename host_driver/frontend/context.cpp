// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/context.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

namespace spyre {
namespace {

template <typename T>
T value_or_throw(flex::Expected<T> result) {
  if (!result) throw flex::Error(std::move(result.error()));
  return std::move(*result);
}

}  // namespace

Context::Context(std::shared_ptr<flex::Card> card, std::unique_ptr<flex::Device> device, flex::RuntimeOptions options)
    : card_(std::move(card)), runtime_(std::move(device), std::move(options)), allocator_(runtime_) {}

std::unique_ptr<Context> Context::open(ContextOptions options) {
  std::shared_ptr<flex::Card> card = value_or_throw(flex::Card::boot(options.card));
  return open(std::move(card), std::move(options));
}

std::unique_ptr<Context> Context::open(std::shared_ptr<flex::Card> card, ContextOptions options) {
  auto device = value_or_throw(options.function == 0 ? card->open_physical(std::move(options.device))
                                                     : card->open_virtual(options.function, std::move(options.device)));
  return std::unique_ptr<Context>(new Context(std::move(card), std::move(device), std::move(options.runtime)));
}

std::shared_ptr<const flex::Kernel> Context::kernel(std::string_view name) const {
  const char* named = std::getenv("SPYRE_KERNELS");
  const std::filesystem::path folder = named != nullptr && *named != '\0'
                                           ? std::filesystem::path(named)
                                           : card_->options().firmware.parent_path() / "kernels";
  const std::string stem(name);
  return flex::Kernel::load(folder / (stem + ".img"), folder / (stem + ".json"));
}

void Context::load(flex::ExecutionPlan& plan) {
  plan.load(runtime_, runtime_.default_stream());
  runtime_.default_stream().Synchronize();
}

}  // namespace spyre
