// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/device_list.hpp"

#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "host_driver/discovery/runtime_folder.hpp"

namespace svp {

namespace {

std::mutex kept_mutex;
std::optional<Enumeration> kept;

}  // namespace

Expected<std::vector<CardDescription>> running_cards() {
  const auto path = RuntimeFolder::default_path();
  // Looking must not create anything; what is there, but not as it should be, is for visit() to refuse.
  std::error_code ignored;
  if (std::filesystem::symlink_status(path, ignored).type() == std::filesystem::file_type::not_found) {
    return std::vector<CardDescription>{};
  }
  const auto folder = RuntimeFolder::visit(path);
  if (!folder) return std::unexpected(folder.error());
  return folder->cards();
}

Expected<Enumeration> enumerate_afresh() {
  const auto variables = EnumerationVariables::from_environment();
  // Malformed variables and MOCK devices need no folder.
  auto without_cards = enumerate(variables, {});
  if (!without_cards || without_cards->mode == DeviceMode::Mock) return without_cards;
  const auto cards = running_cards();
  if (!cards) return std::unexpected(cards.error());
  std::vector<RunningCard> running;
  for (const CardDescription& card : *cards) {
    if (card.state == CardState::Stopping) continue;
    // The PF is the first of its functions.
    running.push_back({card.name, card.functions.empty() ? 0 : static_cast<unsigned>(card.functions.size() - 1)});
  }
  return enumerate(variables, running);
}

Expected<Enumeration> devices() {
  const std::lock_guard lock(kept_mutex);
  if (!kept) {
    auto fresh = enumerate_afresh();
    if (!fresh) return fresh;
    kept = *std::move(fresh);
  }
  return *kept;
}

void forget_devices() {
  const std::lock_guard lock(kept_mutex);
  kept.reset();
}

Expected<AttachedFunction> attach(const EnumeratedDevice& device, OpenOptions options, const Timeouts& timeouts) {
  const auto choice = device.function == wire::kTargetPhysical
                          ? FunctionChoice::physical()
                          : FunctionChoice::virtual_function(device.function - wire::kTargetPhysical);
  return attach(device.card, choice, std::move(options), timeouts);
}

}  // namespace svp
