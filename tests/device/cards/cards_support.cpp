// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cards/cards_support.hpp"
#include "tests/bounds.hpp"

#include <stdexcept>
#include <thread>

namespace svp::test {

BrokerOptions small_broker(const std::filesystem::path& runtime_folder, std::string name, unsigned vfs, unsigned spares,
                           std::uint64_t window_bytes) {
  BrokerOptions options;
  options.name = std::move(name);
  options.runtime_folder = runtime_folder;
  options.card = small_card();
  options.card.virtual_functions = vfs;
  options.card.spare_slots = spares;
  options.card.window_bytes = window_bytes;
  return options;
}

ServedCard::ServedCard(unsigned vfs, unsigned spares, std::uint64_t window_bytes)
    : broker_(value_or_throw(Broker::start(small_broker(runtime_folder_.path(), "card0", vfs, spares, window_bytes)))) {
}

bool ServedCard::wait_until(const std::function<bool(const CardDescription&)>& holds,
                            std::chrono::milliseconds bound) const {
  const auto end = std::chrono::steady_clock::now() + bound;
  while (!holds(description())) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(test_bounds::kLook);  // bounded: a pause of the loop above
  }
  return true;
}

bool ServedCard::wait_until_at_rest() const { return test::wait_until_at_rest(*broker_); }

bool wait_until_at_rest(const Broker& broker) {
  const auto end = std::chrono::steady_clock::now() + kBound;
  while (!broker.at_rest()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(test_bounds::kLook);  // bounded: a pause of the loop above
  }
  return true;
}

BothProcesses count_both(const ServedCard& card) {
  if (!card.wait_until_at_rest()) throw std::runtime_error("the broker does not come to rest");
  const pid_t emulator = card.description().emulator;
  return {count_process_resources(), descriptors_of(emulator), threads_of(emulator)};
}

namespace {

std::string more_of_emulator(const BothProcesses& before, const BothProcesses& now) {
  std::string text;
  const auto append = [&](std::size_t had, std::size_t has, const std::string& what) {
    if (has > had) append_difference(text, had, has, ("of the emulator's " + what).c_str());
  };
  for (const auto& [kind, number] : now.emulator_descriptors) {
    const auto had = before.emulator_descriptors.find(kind);
    append(had == before.emulator_descriptors.end() ? 0 : had->second, number, kind);
  }
  append(before.emulator_threads, now.emulator_threads, "threads");
  return text;
}

}  // namespace

std::string left_over(const ServedCard& card, const BothProcesses& before) {
  std::string of_emulator;
  (void)card.wait_until([&](const CardDescription&) {
    of_emulator = more_of_emulator(before, count_both(card));
    return of_emulator.empty();
  });
  const std::string ours = left_over(before.ours);
  return ours + (ours.empty() || of_emulator.empty() ? "" : ", ") + of_emulator;
}

Tenant::Tenant(const std::string& folder, const std::string& function, const std::string& command)
    : HelperProcess(SPYRE_TENANT, {folder, function, command}), attached(read_line()) {}

}  // namespace svp::test
