// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/broker_connection.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "host_driver/discovery/local_socket.hpp"
#include "host_driver/discovery/runtime_folder.hpp"

namespace svp {

namespace {

struct CardFolderOf {
  UniqueFd folder;
  uid_t user;
};

Expected<CardFolderOf> open_card_folder(const std::filesystem::path& path, const std::string& name, bool named) {
  UniqueFd folder{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!folder.valid()) {
    const std::string why = errno == ENOENT ? "" : ": " + std::generic_category().message(errno);
    return std::unexpected(refused_by_driver(name, "there is no card " + name + " (" + path.string() + ")" + why,
                                             "boot it (spyre boot --name), or name a card that runs (spyre devices)"));
  }
  struct stat info{};
  const bool examined = ::fstat(folder.get(), &info) == 0;
  if (!examined || (info.st_mode & 0027) != 0 || (info.st_uid != ::geteuid() && !named)) {
    return std::unexpected(refused_by_driver(name,
                                             path.string() + " does not belong to this user, or others may change it",
                                             std::string("name a folder of your own in ") + kRuntimeFolderVariable));
  }
  return CardFolderOf{std::move(folder), info.st_uid};
}

}  // namespace

Expected<BrokerConnection> BrokerConnection::open(std::string_view card, Socket which, std::chrono::nanoseconds bound) {
  const auto end = Clock::now() + bound;
  const auto path = card_path(card);
  if (!path) return std::unexpected(path.error());
  const std::string name = path->filename().string();
  const bool named = card.contains('/') || RuntimeFolder::is_named();
  const auto folder = open_card_folder(*path, name, named);
  if (!folder) return std::unexpected(folder.error());
  const char* const file = which == Socket::Management ? kManagementSocketName : kSocketName;
  auto socket = connect_in(folder->folder.get(), file, bound);
  if (!socket && socket.error().forbidden) {
    const bool management = which == Socket::Management;
    return std::unexpected(
        refused_by_driver(name,
                          "this user may not connect to the " + std::string(management ? "management" : "tenant") +
                              " socket of card " + name,
                          management ? "ask whoever runs the card (user " + std::to_string(folder->user) + ")"
                                     : "boot the card with --group, and join that group"));
  }
  if (!socket) {
    if (!socket.error().absent) {
      return std::unexpected(
          refused_by_driver(name, "the broker of card " + name + " cannot be reached: " + socket.error().reason,
                            "look whether its process still works"));
    }
    return std::unexpected(refused_by_driver(name, "nobody serves the card " + name + " any more", "boot it again"));
  }
  ucred broker{};
  socklen_t size = sizeof broker;
  if (::getsockopt(socket->get(), SOL_SOCKET, SO_PEERCRED, &broker, &size) != 0 || broker.uid != folder->user) {
    return std::unexpected(refused_by_driver(name, "the card " + name + " is served by another user than its folder's",
                                             "boot a card of your own"));
  }
  return BrokerConnection(std::string(card), which, name, *std::move(socket), broker.pid, end);
}

ErrorInfo BrokerConnection::failed(std::string message, std::string next, wire::Outcome outcome) const {
  return {.layer = Layer::Driver,
          .source = name_,
          .outcome = outcome,
          .recoverable = true,
          .next_step = std::move(next),
          .message = "the broker of card " + name_ + " (pid " + std::to_string(broker_) + ") " + std::move(message)};
}

Expected<BrokerAnswer> BrokerConnection::transact(const BrokerRequest& request) {
  ask(request);
  return answer();
}

void BrokerConnection::ask(const BrokerRequest& request) {
  request_ = request;
  // A broker that refuses a connection at once has closed it by now, and its refusal is there to be read.
  (void)send_message(socket_.get(), encode(request));
}

Expected<void> BrokerConnection::ask_again() {
  const auto left = end_ - Clock::now();
  if (!request_ || left <= Clock::duration::zero()) return std::unexpected(no_answer());
  auto another = open(card_, which_, left);
  if (!another) return std::unexpected(std::move(another.error()));
  const BrokerRequest request = *std::move(request_);
  *this = *std::move(another);
  ask(request);
  return {};
}

ErrorInfo BrokerConnection::no_answer() const {
  return failed("did not answer in time", "look whether its process still works; else end it",
                wire::Outcome::Indeterminate);
}

Expected<BrokerAnswer> BrokerConnection::answer() {
  for (;;) {
    Received received = receive_message(socket_.get(), kMaxBrokerMessage, kGrantDescriptors);
    switch (received.kind) {
      case Received::Kind::Message: {
        auto reply = parse_broker_reply(received.text);
        if (!reply) return std::unexpected(std::move(reply.error()));
        if (auto* error = std::get_if<ErrorInfo>(&*reply)) return std::unexpected(std::move(*error));
        if (std::holds_alternative<Late>(*reply)) {
          if (auto asked = ask_again(); !asked) return std::unexpected(std::move(asked.error()));
          continue;
        }
        if (const auto* prove = std::get_if<Prove>(&*reply)) {
          (void)send_message(socket_.get(), encode(BrokerRequest(ProofRequest{prove->nonce})));
          continue;
        }
        return BrokerAnswer{*std::move(reply), std::move(received.descriptors)};
      }
      case Received::Kind::End:
        return std::unexpected(failed("ended before it answered", "look whether the card still runs (spyre devices)",
                                      wire::Outcome::Lost));
      case Received::Kind::Refused:
        return std::unexpected(failed("sent a message that is too long or has too many descriptors",
                                      "use the same version of the program for broker and tenant",
                                      wire::Outcome::Rejected));
      case Received::Kind::Nothing: break;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_ - Clock::now());
    if (left.count() <= 0) {
      return std::unexpected(no_answer());
    }
    pollfd event{socket_.get(), POLLIN, 0};
    (void)::poll(&event, 1, static_cast<int>(left.count()));
  }
}

}  // namespace svp
