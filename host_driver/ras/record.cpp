// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ras/record.hpp"

#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

namespace svp::ras {

namespace {

// UTC with microseconds, ISO 8601: sorts as text.
std::string time_text(std::chrono::system_clock::time_point time) {
  const auto since = std::chrono::floor<std::chrono::microseconds>(time.time_since_epoch()).count();
  const std::time_t seconds = since / 1'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%06dZ", date, static_cast<int>(since % 1'000'000));
  return text;
}

template <typename T>
nlohmann::ordered_json or_null(const std::optional<T>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

std::string to_json(const Record& record) {
  const ErrorInfo& error = record.error;
  const nlohmann::ordered_json json{
      {"time", time_text(record.time)},
      {"code", to_string(record.code)},
      {"name", name_of(error)},
      {"layer", name(error.layer)},
      {"source", error.source},
      {"outcome", wire::name(error.outcome)},
      {"status", static_cast<unsigned>(error.status)},
      {"recoverable", error.recoverable},
      {"next_step", error.next_step},
      {"message", error.message},
      {"device", record.where.device},
      {"function", record.where.function},
      {"stream", or_null(record.where.stream)},
      {"launch", or_null(record.where.launch)},
      {"counts", {{"occurred", record.counts.occurred}, {"suppressed", record.counts.suppressed}}},
      {"pid", ::getpid()},
  };
  // A name that a user gave may be no UTF-8: the record is written all the same.
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace svp::ras
