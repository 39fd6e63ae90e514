// SPDX-License-Identifier: Apache-2.0
#include "tests/device/debug/debugger.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "host_driver/transport/window.hpp"
#include "tests/bounds.hpp"
#include "tests/conformance/workbench.hpp"

namespace svp::test {

namespace {

std::string endpoint(const std::filesystem::path& socket) { return "unix:" + socket.string() + ",server=on,wait=off"; }

}  // namespace

Finished gdb(const std::filesystem::path& firmware, const std::vector<std::string>& commands) {
  std::vector<std::string> words{"gdb-multiarch",     "-nx", "-batch", "-ex", "set confirm off", "-ex",
                                 "set pagination off"};
  for (const std::string& command : commands) {
    words.emplace_back("-ex");
    words.push_back(command);
  }
  words.push_back(firmware.string());
  return run(std::move(words), {});
}

DebuggedCard::DebuggedCard(CardOptions options) {
  options.emulator.gdb_endpoint = endpoint(folder_.path() / "gdb");
  card_ = value_or_throw(Card::boot(std::move(options)));
  EXPECT_NE(wait_for_epoch(1), 0u);
}

void DebuggedCard::inject(const std::vector<std::string>& commands) {
  std::vector<std::string> all{"target remote " + file("gdb").string()};
  all.insert(all.end(), commands.begin(), commands.end());
  all.emplace_back("detach");
  const Finished finished = gdb(firmware(), all);
  EXPECT_EQ(finished.code, 0) << finished.output;
}

std::uint64_t DebuggedCard::wait_for_epoch(std::uint64_t epoch) const {
  const auto slot = value_or_throw(card_->slot(0));
  const auto window = value_or_throw(Window::map(slot.window_fd(), slot.window_bytes()));
  const auto end = std::chrono::steady_clock::now() + kBound;
  while (std::chrono::steady_clock::now() < end) {
    const HeaderView header = window->header();
    if (header.magic == wire::kWindowMagic && header.boot_epoch >= epoch && header.post_code == wire::PostCode::Ready) {
      return header.boot_epoch;
    }
    std::this_thread::sleep_for(test_bounds::kLook);  // bounded: a pause of the loop above
  }
  return 0;
}

}  // namespace svp::test
