// SPDX-License-Identifier: Apache-2.0
#include "tests/device/debug/gdb_client.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>

#include "tests/bounds.hpp"

namespace svp::test {

namespace {

using Clock = std::chrono::steady_clock;

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

template <typename Connect>
UniqueFd connect_when_it_listens(Connect connect) {
  UniqueFd socket;
  for (const auto deadline = Clock::now() + test_bounds::kEmulator; !socket.valid() && Clock::now() < deadline;) {
    socket = connect();
    if (!socket.valid()) std::this_thread::sleep_for(test_bounds::kLook);  // bounded: a pause of the bounded loop
  }
  return socket;
}

}  // namespace

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

GdbClient GdbClient::over_tcp(unsigned short port) {
  return GdbClient(connect_when_it_listens([&] { return connect_tcp(port); }));
}
GdbClient GdbClient::over_unix(const std::string& path) {
  return GdbClient(connect_when_it_listens([&] { return connect_unix(path); }));
}

void GdbClient::send(std::string_view packet) const {
  const auto sum = std::accumulate(packet.begin(), packet.end(), 0U,
                                   [](unsigned so_far, char c) { return so_far + static_cast<unsigned char>(c); });
  char tail[4];
  std::snprintf(tail, sizeof tail, "#%02x", sum & 0xFF);
  const std::string framed = "$" + std::string(packet) + tail;
  EXPECT_EQ(::send(socket_.get(), framed.data(), framed.size(), MSG_NOSIGNAL | MSG_DONTWAIT),
            static_cast<ssize_t>(framed.size()));
}

std::string GdbClient::answer() {
  std::string text;
  while (!text.contains('#') && says_something(test_bounds::kEmulator)) {
    char bytes[256];
    const ssize_t got = ::recv(socket_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) break;
    text.append(bytes, static_cast<std::size_t>(got));
  }
  EXPECT_EQ(::send(socket_.get(), "+", 1, MSG_NOSIGNAL | MSG_DONTWAIT), 1);
  return text.substr(0, text.find('#'));
}

std::string GdbClient::ask(std::string_view packet) {
  send(packet);
  return answer();
}

bool GdbClient::says_something(std::chrono::milliseconds bound) const {
  pollfd event{socket_.get(), POLLIN, 0};
  return ::poll(&event, 1, test_bounds::in_milliseconds(bound)) == 1;
}

}  // namespace svp::test
