// SPDX-License-Identifier: Apache-2.0
// A debugger holds the boot of a card for longer than the driver's bound. It is a client of the remote protocol with
// the two packets that this takes: "?" and "c".
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "host_driver/base/unique_fd.hpp"
#include "qemu/card.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using Clock = std::chrono::steady_clock;

// Port 0: the system chooses one, which is free again when the socket is closed.
unsigned short free_port() {
  const UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  return ntohs(address.sin_port);
}

UniqueFd connect_tcp(unsigned short port) {
  UniqueFd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // bounded: of this machine, a listener takes it or there is none
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.reset();
  return socket;
}

UniqueFd connect_unix(const std::string& path) {
  UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  // bounded: of this machine, a listener takes it or there is none
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) socket.reset();
  return socket;
}

bool readable(const UniqueFd& socket, std::chrono::milliseconds bound) {
  pollfd event{socket.get(), POLLIN, 0};
  return ::poll(&event, 1, test_bounds::in_milliseconds(bound)) == 1;
}

// Attaches as soon as the emulator listens, holds the card, and lets it go.
template <typename Connect>
void hold_boot(Connect connect) {
  UniqueFd socket;
  for (const auto deadline = Clock::now() + test_bounds::kEmulator; !socket.valid() && Clock::now() < deadline;) {
    socket = connect();
    if (!socket.valid()) std::this_thread::sleep_for(test_bounds::kLook);  // bounded: a pause of the bounded loop
  }
  ASSERT_TRUE(socket.valid());
  const std::string why = "$?#3f";
  ASSERT_EQ(::send(socket.get(), why.data(), why.size(), MSG_NOSIGNAL | MSG_DONTWAIT), 5);
  std::string answer;
  while (!answer.contains('#') && readable(socket, test_bounds::kEmulator)) {
    char bytes[256];
    const ssize_t got = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) break;
    answer.append(bytes, static_cast<std::size_t>(got));
  }
  EXPECT_TRUE(answer.contains("$T05") || answer.contains("$S05")) << answer;
  EXPECT_FALSE(readable(socket, test_bounds::kHeldBoot)) << "a card that is held says nothing";
  const std::string go = "+$c#63";
  ASSERT_EQ(::send(socket.get(), go.data(), go.size(), MSG_NOSIGNAL | MSG_DONTWAIT), 6);
  (void)readable(socket, test_bounds::kEmulator);  // what it says when it has taken the packet
}

void expect_boots(const std::string& endpoint) {
  CardOptions options;
  options.virtual_functions = 0;
  options.emulator.gdb_endpoint = endpoint;
  auto card = Card::boot(std::move(options));
  ASSERT_TRUE(card) << describe(card.error());
  const auto device = (*card)->open_physical({});
  EXPECT_TRUE(device) << describe(device.error());
}

TEST(HeldBoot, OverTcpIsNoFailure) {
  const unsigned short port = free_port();
  std::thread debugger([&] { hold_boot([&] { return connect_tcp(port); }); });
  expect_boots("tcp:127.0.0.1:" + std::to_string(port) + ",wait=on");
  debugger.join();  // bounded: every wait of it is
}

TEST(HeldBoot, OverAUnixSocketIsNoFailure) {
  const qemu::test::TemporaryFolder folder;
  const std::string path = (folder.path() / "gdb").string();
  std::thread debugger([&] { hold_boot([&] { return connect_unix(path); }); });
  expect_boots("unix:" + path + ",server=on,wait=on");
  debugger.join();  // bounded: every wait of it is
}

// What a program has that knows nothing of a debugger.
TEST(HeldBoot, WhereTheEnvironmentSaysIsNoFailure) {
  const unsigned short port = free_port();
  ASSERT_EQ(::setenv("SPYRE_GDB", ("tcp:127.0.0.1:" + std::to_string(port) + ",wait=on").c_str(), 1), 0);
  std::thread debugger([&] { hold_boot([&] { return connect_tcp(port); }); });
  expect_boots({});
  debugger.join();  // bounded: every wait of it is
  ::unsetenv("SPYRE_GDB");
}

}  // namespace
}  // namespace svp
