// SPDX-License-Identifier: Apache-2.0
// A debugger that speaks as much of gdb's remote protocol as a test of a held card takes: packets and their answers.
// The harts stand still from its connection on, until it says "c".
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "host_driver/base/unique_fd.hpp"

namespace svp::test {

// Port 0: the system chooses one, which is free again when the socket is closed.
unsigned short free_port();

class GdbClient {
 public:
  // Connects as soon as the emulator listens there; not connected() when it did not in test_bounds::kEmulator.
  static GdbClient over_tcp(unsigned short port);
  static GdbClient over_unix(const std::string& path);

  bool connected() const { return socket_.valid(); }
  // The answer's text, without its frame; what came when none was complete in test_bounds::kEmulator.
  std::string ask(std::string_view packet);
  std::string answer();
  // Without waiting for an answer.
  void send(std::string_view packet) const;
  bool says_something(std::chrono::milliseconds bound) const;

 private:
  explicit GdbClient(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;
};

}  // namespace svp::test
