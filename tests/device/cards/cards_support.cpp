// SPDX-License-Identifier: Apache-2.0
#include "tests/device/cards/cards_support.hpp"
#include "tests/bounds.hpp"

#include <ostream>
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

bool ServedCard::wait_until_renewed() const {
  return wait_until([](const CardDescription& now) {
    return now.slots_left == now.slots_total - 1 - static_cast<unsigned>(now.functions.size());
  });
}

ProcessResources quiet_process_resources() {
  constexpr int kQuietRounds = 10;
  ProcessResources last = count_process_resources();
  for (int same = 0, rounds = 0; same < kQuietRounds && rounds < 100 * kQuietRounds; ++rounds) {
    std::this_thread::sleep_for(test_bounds::kRareLook);  // bounded: a pause of the loop above
    const ProcessResources now = count_process_resources();
    same = now == last ? same + 1 : 0;
    last = now;
  }
  return last;
}

BothProcesses count_both(const ServedCard& card) {
  const pid_t emulator = card.description().emulator;
  return {count_process_resources(), descriptors_of(emulator), threads_of(emulator)};
}

std::ostream& operator<<(std::ostream& out, const BothProcesses& counts) {
  out << counts.ours << "; the emulator: " << counts.emulator_threads << " threads";
  for (const auto& [kind, number] : counts.emulator_descriptors) out << ", " << number << " of " << kind;
  return out;
}

Tenant::Tenant(const std::string& folder, const std::string& function, const std::string& command)
    : HelperProcess(SPYRE_TENANT, {folder, function, command}), attached(read_line()) {}

}  // namespace svp::test
