// SPDX-License-Identifier: Apache-2.0
// A card with a broker, for scenarios whose owners are processes of their own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "host_driver/broker/broker.hpp"
#include "host_driver/discovery/attach.hpp"
#include "host_driver/discovery/runtime_folder.hpp"
#include "tests/validation/campaign/card_fixture.hpp"
#include "tests/validation/campaign/scenario_context.hpp"

namespace svp::campaign {

// Runtime folder, broker and card of one scenario.
class LongLivedCard {
 public:
  explicit LongLivedCard(ScenarioContext& context)
      : folder_(value_or_throw(value_or_throw(RuntimeFolder::open()).create_private("campaign"))),
        broker_(start(context)) {}
  ~LongLivedCard() { broker_->stop(); }

  const std::filesystem::path& runtime_folder() const { return folder_.path(); }
  std::string path() const { return broker_->folder().string(); }
  Broker& broker() { return *broker_; }
  std::unique_ptr<Device> attach(unsigned virtual_function) {
    return value_or_throw(svp::attach(path(), FunctionChoice::virtual_function(virtual_function))).device;
  }

 private:
  std::unique_ptr<Broker> start(ScenarioContext& context) {
    BrokerOptions options;
    options.name = "campaign";
    FixtureOptions fixture = context.fixture_options();
    fixture.shape.virtual_functions = 4;
    fixture.shape.spare_slots = 8;
    options.card = card_options(fixture);
    options.runtime_folder = folder_.path();
    return value_or_throw(Broker::start(std::move(options)));
  }

  RuntimeFolder folder_;
  std::unique_ptr<Broker> broker_;
};

// While it exists the scenario's faults are armed by the M of the broker. It ends before the card does.
class BorrowedManagement {
 public:
  BorrowedManagement(ScenarioContext& context, LongLivedCard& card) : context_(context) {
    context_.manage_by(card.broker().management());
  }
  ~BorrowedManagement() { context_.manage_by(nullptr); }
  BorrowedManagement(const BorrowedManagement&) = delete;
  BorrowedManagement& operator=(const BorrowedManagement&) = delete;

 private:
  ScenarioContext& context_;
};

}  // namespace svp::campaign
