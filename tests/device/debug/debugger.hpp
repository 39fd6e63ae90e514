// SPDX-License-Identifier: Apache-2.0
// gdb-multiarch as a tool of tests: it breaks a running firmware at a place that the test chooses, and opens what is
// left.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qemu/card.hpp"
#include "tests/device/cli/program.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp::test {

// gdb-multiarch in batch mode, on the firmware's ELF file, with these commands.
Finished gdb(const std::filesystem::path& firmware, const std::vector<std::string>& commands);

// What hart 0 calls for ever: the steps of the loop are inlined into it.
inline constexpr const char* kLoopFunction = "fw::loop_step(fw::Card&, unsigned int&)";

// A booted card that a debugger can get at.
class DebuggedCard {
 public:
  explicit DebuggedCard(CardOptions options);

  Card& card() { return *card_; }
  const std::filesystem::path& firmware() const { return card_->options().firmware; }
  // A place for files of the test.
  std::filesystem::path file(const std::string& name) const { return folder_.path() / name; }
  // Stops the harts, handles, lets them go.
  void inject(const std::vector<std::string>& commands);

  // Instructions that cannot be are put at the beginning of the function; whoever calls it next breaks there.
  void break_function(const std::string& name) { inject({"set {int}(&'" + name + "') = 0"}); }
  // A hart goes on at the place, with its registers as they are.
  void send_hart(unsigned hart, const std::string& place) {
    inject({"thread " + std::to_string(hart + 1), "set $pc = " + place});
  }
  // Until the card serves again in this boot or a later one. 0: it did not within the bound.
  std::uint64_t wait_for_epoch(std::uint64_t epoch) const;

 private:
  qemu::test::TemporaryFolder folder_;
  std::unique_ptr<Card> card_;
};

}  // namespace svp::test
