// SPDX-License-Identifier: Apache-2.0
//
// Stands in for the emulator in unit tests: takes the same command line, is a strict ivshmem client (it aborts on any
// message that would crash the real one), a QMP server, and a card that echoes doorbells. What it shall do wrong comes
// in `-fake <behaviour>`:
//   silent        never greets on QMP              masked        greets, but never reads its slots
//   old           says it is QEMU 8.1.0            garbage     writes broken JSON between good messages
//   mute          does not answer "stop"           refuse      answers "stop" with an error
//   fail          writes to stderr, exits with 3   exit:N      exits with N after "cont"
//   signal:N      dies of signal N after "cont"    endless     writes a console line without an end
//   orphan        outlives its parent
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "qemu/renewal.hpp"

namespace {

using nlohmann::json;

[[noreturn]] void protocol_violation(std::string_view what) {
  std::cerr << "fake emulator: " << what << '\n';
  std::abort();
}

struct Arguments {
  int qmp = -1;
  int console = -1;
  std::vector<int> slots;
  std::string behaviour;
  std::string boot_arguments;
};

int number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) protocol_violation(fmt::format("no '{}' in '{}'", key, text));
  return std::atoi(std::string{text.substr(at + key.size())}.c_str());
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; ++i) {
    const std::string_view option = argv[i];
    const std::string_view value = argv[i + 1];
    if (option == "-chardev" && value.starts_with("socket,id=qmp")) arguments.qmp = number_after(value, "fd=");
    if (option == "-chardev" && value.starts_with("socket,id=slot")) {
      arguments.slots.push_back(number_after(value, "fd="));
    }
    if (option == "-add-fd") arguments.console = number_after(value, "fd=");
    if (option == "-fake") arguments.behaviour = value;
    if (option == "-append") arguments.boot_arguments = value;
  }
  return arguments;
}

struct Message {
  std::int64_t value = 0;
  int descriptor = -1;
};

Message receive(int socket) {
  Message message;
  iovec part{&message.value, sizeof message.value};
  alignas(cmsghdr) unsigned char control[CMSG_SPACE(sizeof(int))];
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  if (recvmsg(socket, &header, MSG_CMSG_CLOEXEC) != sizeof message.value) protocol_violation("short handshake message");
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&header)) std::memcpy(&message.descriptor, CMSG_DATA(rights), sizeof(int));
  return message;
}

struct Doorbells {
  int from_host = -1;
  int to_host = -1;
};

void expect(const Message& message, std::int64_t value, bool with_descriptor, std::string_view what) {
  if (message.value != value || (message.descriptor >= 0) != with_descriptor) protocol_violation(what);
}

Doorbells shake_hands(int socket) {
  expect(receive(socket), 0, false, "the first message must be the protocol version");
  expect(receive(socket), qemu::kCardPeer, false, "the second message must be the own id");
  expect(receive(socket), -1, true, "the third message must be the memory");
  const Message host = receive(socket);
  expect(host, qemu::kHostPeer, true, "the host peer's doorbell must follow");
  const Message own = receive(socket);
  expect(own, qemu::kCardPeer, true, "the own doorbell must come last");
  return {own.descriptor, host.descriptor};
}

class Card {
 public:
  explicit Card(Arguments&& arguments) : arguments_(std::move(arguments)) {}

  int run() {
    if (is("fail")) {
      std::cerr << "fake emulator: told to fail\n";
      return 3;
    }
    if (is("silent")) return wait_forever();
    greet();
    if (is("orphan") && prctl(PR_SET_PDEATHSIG, 0) != 0) return 1;
    if (!is("silent")) {
      for (const int socket : arguments_.slots) doorbells_.push_back(shake_hands(socket));
    }
    for (;;) serve();  // bounded: the lifetime of the emulator that it plays; its owner kills it
  }

 private:
  [[nodiscard]] bool is(std::string_view behaviour) const { return arguments_.behaviour == behaviour; }

  static int wait_forever() {
    for (;;) pause();  // bounded: the lifetime of the emulator that it plays; its owner kills it
  }

  void greet() {
    const int major = is("old") ? 8 : 10;
    send(
        {{"QMP",
          {{"version", {{"qemu", {{"major", major}, {"minor", 1}, {"micro", 0}}}}}, {"capabilities", json::array()}}}});
  }

  void send(const json& message) const {
    std::string text = message.dump() + "\r\n";
    if (is("garbage")) text = "{\"half\": \r\n[1,2]\r\n" + text;
    if (write(arguments_.qmp, text.data(), text.size()) < 0) std::exit(0);
  }

  void print(std::string_view text) const {
    if (write(arguments_.console, text.data(), text.size()) < 0) std::exit(1);
  }

  void serve() {
    std::vector<pollfd> events{{arguments_.qmp, POLLIN, 0}};
    for (const Doorbells& doorbells : doorbells_) events.push_back({doorbells.from_host, POLLIN, 0});
    poll(events.data(), events.size(), -1);  // bounded: the lifetime of the emulator that it plays; its owner kills it
    if (events[0].revents != 0) read_requests();
    for (std::size_t i = 0; i < doorbells_.size(); ++i) {
      if (events[i + 1].revents != 0) echo(doorbells_[i]);
    }
  }

  static void echo(const Doorbells& doorbells) {
    char drained[512];
    if (read(doorbells.from_host, drained, sizeof drained) > 0) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const ssize_t ignored = write(doorbells.to_host, &one, sizeof one);
    }
  }

  void read_requests() {
    char chunk[4096];
    const ssize_t got = read(arguments_.qmp, chunk, sizeof chunk);
    if (got <= 0) std::exit(0);
    received_.append(chunk, static_cast<std::size_t>(got));
    for (std::size_t end; (end = received_.find('\n')) != std::string::npos; received_.erase(0, end + 1)) {
      answer(json::parse(received_.substr(0, end)));
    }
  }

  void event(std::string_view name, const json& data = json::object()) const {
    send({{"event", name}, {"data", data}, {"timestamp", {{"seconds", 1}, {"microseconds", 2}}}});
  }

  void answer(const json& request) {
    const std::string command = request.at("execute");
    if (command == "stop" && is("mute")) return;
    if (command == "stop" && is("refuse")) {
      send({{"error", {{"class", "GenericError"}, {"desc", "told to refuse"}}}, {"id", request.at("id")}});
      return;
    }
    json result = json::object();
    if (command == "query-cpus-fast") {
      result = json::array({{{"cpu-index", 0}, {"thread-id", getpid()}}});
    } else if (command == "echo") {
      result = request.value("arguments", json::object());
    }
    send({{"return", result}, {"id", request.at("id")}});
    after(command);
  }

  void after(const std::string& command) const {
    if (command == "system_reset") event("RESET", {{"guest", false}, {"reason", "host-qmp-system-reset"}});
    if (command == "stop") event("STOP");
    if (command == "quit") {
      event("SHUTDOWN", {{"guest", false}, {"reason", "host-qmp-quit"}});
      std::exit(0);
    }
    if (command != "cont") return;
    event("RESUME");
    print(fmt::format("boot arguments: {}\r\nunfinished", arguments_.boot_arguments));
    if (arguments_.behaviour.starts_with("exit:")) std::exit(number_after(arguments_.behaviour, ":"));
    if (arguments_.behaviour.starts_with("signal:")) raise(number_after(arguments_.behaviour, ":"));
    if (is("endless")) print(std::string(40'000, 'x'));
  }

  const Arguments arguments_;
  std::vector<Doorbells> doorbells_;
  std::string received_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view{argv[1]} == "--version") {
    std::cout << "QEMU emulator version 10.1.0 (fake)\n";
    return 0;
  }
  try {
    return Card{parse(argc, argv)}.run();
  } catch (const std::exception& error) {
    protocol_violation(error.what());
  }
}
