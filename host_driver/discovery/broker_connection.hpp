// SPDX-License-Identifier: Apache-2.0
// A client's connection to the broker of a card: one request, one reply.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/base/unique_fd.hpp"
#include "host_driver/discovery/broker_message.hpp"

namespace svp {

struct BrokerAnswer {
  BrokerReply reply;                  // never an ErrorInfo: a refusal is the error of transact()
  std::vector<UniqueFd> descriptors;  // of a Grant
};

class BrokerConnection {
 public:
  using Clock = std::chrono::steady_clock;

  enum class Socket {
    Tenant,      // take a function, describe the card, reset one's own function
    Management,  // everything; only for the user whose card it is
  };
  // `card` as card_path() takes it. Refused when the broker is not the user whose folder it is, when others may write
  // to the folder, and when the folder is another user's without having been named (kRuntimeFolderVariable, or a path).
  static Expected<BrokerConnection> open(std::string_view card, Socket socket, std::chrono::nanoseconds bound);

  // Sends the request and waits for the reply, both within the bound that open() was given in all. A broker that takes
  // this process for silent (the machine gave it no time, a debugger held it) is connected and asked again within that.
  Expected<BrokerAnswer> transact(const BrokerRequest& request);
  // The two apart, for what can be done meanwhile.
  void ask(const BrokerRequest& request);
  Expected<BrokerAnswer> answer();

  pid_t broker() const { return broker_; }
  // While it is open, the broker takes this process for alive.
  UniqueFd release() && { return std::move(socket_); }

 private:
  BrokerConnection(std::string card, Socket which, std::string name, UniqueFd socket, pid_t broker,
                   Clock::time_point end)
      : card_(std::move(card)),
        which_(which),
        name_(std::move(name)),
        socket_(std::move(socket)),
        broker_(broker),
        end_(end) {}
  Expected<void> ask_again();
  ErrorInfo no_answer() const;
  ErrorInfo failed(std::string message, std::string next, wire::Outcome outcome) const;

  std::string card_;  // as open() was told
  Socket which_;
  std::optional<BrokerRequest> request_{};
  std::string name_;
  UniqueFd socket_;
  pid_t broker_;
  Clock::time_point end_;
};

}  // namespace svp
