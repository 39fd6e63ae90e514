// SPDX-License-Identifier: Apache-2.0
#include "host_driver/broker/acceptor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "host_driver/discovery/local_socket.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

TEST(Acceptor, ConnectionsWaitForDescriptorsAndCostOneTimer) {
  constexpr unsigned kConnections = 5;
  constexpr std::uint64_t kPauses = 5;
  const qemu::test::TemporaryFolder temporary;
  const UniqueFd folder{::open(temporary.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  auto listener = listen_in(folder.get(), kSocketName);
  ASSERT_TRUE(listener);
  auto created = EventLoop::create();
  ASSERT_TRUE(created);
  EventLoop& loop = **created;
  std::atomic<unsigned> admitted{0};
  std::atomic<bool> none_left{true};
  Acceptor acceptor([&](UniqueFd) { ++admitted; },
                    [&](int socket) { return none_left ? (errno = EMFILE, -1) : Acceptor::accept_one(socket); });
  std::vector<UniqueFd> clients;
  for (unsigned i = 0; i < kConnections; ++i) {
    auto client = connect_in(folder.get(), kSocketName, test_bounds::kConnection);
    ASSERT_TRUE(client);
    clients.push_back(*std::move(client));
  }
  const std::uint64_t before = loop.wakeups();
  loop.post([&] { acceptor.open(loop, *std::move(listener)); });
  const auto waited = [&](const auto& holds) {
    const auto limit = std::chrono::steady_clock::now() + test_bounds::kThread;
    while (!holds() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    return holds();
  };
  ASSERT_TRUE(waited([&] { return acceptor.pauses() >= kPauses; }));
  // A pause is the end of its timer and the socket's event, each at most two iterations of the ring with what they
  // cancel.
  const std::uint64_t wakeups = loop.wakeups() - before;
  EXPECT_LE(wakeups, 6 * (acceptor.pauses() + 1));
  EXPECT_EQ(admitted, 0u);
  none_left = false;
  EXPECT_TRUE(waited([&] { return admitted == kConnections; }));
  loop.post([&] { acceptor.close(); });
  loop.flush();
}

}  // namespace
}  // namespace svp
