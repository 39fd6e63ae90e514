// SPDX-License-Identifier: Apache-2.0
// What a broker and its clients say to each other, from the side that does not trust the other. What is accepted can be
// said again and means the same; what is refused names a member and the next step; nothing said is too long.
#include "host_driver/discovery/broker_message.hpp"

#include "tests/fuzz/fuzz.hpp"

namespace {

template <typename Message, typename Parse>
void hold_to_contract(std::string_view text, Parse parse) {
  using fuzz::require;
  const svp::Expected<Message> message = parse(text);
  if (!message) {
    const svp::ErrorInfo& error = message.error();
    require(error.outcome != wire::Outcome::Ok, "a refusal is no success");
    require(!error.source.empty() && !error.next_step.empty() && !error.message.empty(), "a refusal says all");
    // An error is itself sent to whoever asked.
    const std::string sent = svp::encode(svp::BrokerReply{error});
    require(sent.size() <= svp::kMaxBrokerMessage, "no message is longer than the limit");
    require(svp::parse_broker_reply(sent).has_value(), "an error can be sent");
    return;
  }
  const std::string again = svp::encode(*message);
  require(again.size() <= svp::kMaxBrokerMessage, "no message is longer than the limit");
  const auto second = parse(again);
  require(second.has_value(), "what was understood can be said again");
  require(svp::encode(*second) == again, "and means the same");
}

}  // namespace

void fuzz::run(Input input) {
  const std::string_view text = input.rest_as_text();
  hold_to_contract<svp::BrokerRequest>(text, svp::parse_broker_request);
  hold_to_contract<svp::BrokerReply>(text, svp::parse_broker_reply);
}
