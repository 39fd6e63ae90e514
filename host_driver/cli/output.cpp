// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "host_driver/cli/exit_codes.hpp"

namespace cli {

namespace {

ColorMode color_mode = ColorMode::Auto;

const char* locale_of_environment() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (const char* value = std::getenv(variable); value != nullptr && *value != '\0') return value;
  }
  return nullptr;
}

svp::Error output_error(const std::string& why) {
  return svp::Error(svp::refused_by_driver("stdout", "what was printed is not complete: " + why,
                                           "give the command an output that takes what it prints"));
}

// "C.UTF-8", "de_DE.utf8@euro".
bool is_utf8(const char* locale) {
  std::string text(locale == nullptr ? "" : locale);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text.find(".utf-8") != std::string::npos || text.find(".utf8") != std::string::npos;
}

}  // namespace

Style style_for(ColorMode mode, const OutputEnvironment& environment) {
  const bool refused = environment.no_color != nullptr && *environment.no_color != '\0';
  const bool dumb = environment.term != nullptr && std::string_view(environment.term) == "dumb";
  const bool automatic = environment.terminal && !refused && !dumb;
  return {.color = mode == ColorMode::Always || (mode == ColorMode::Auto && automatic),
          .unicode = is_utf8(environment.locale)};
}

void set_color_mode(ColorMode mode) { color_mode = mode; }

Style stdout_style() {
  return style_for(color_mode, {.terminal = ::isatty(STDOUT_FILENO) == 1,
                                .no_color = std::getenv("NO_COLOR"),
                                .term = std::getenv("TERM"),
                                .locale = locale_of_environment()});
}

void print_json(const nlohmann::ordered_json& object) {
  nlohmann::ordered_json versioned = {{"schema_version", kSchemaVersion}};
  versioned.update(object);
  std::cout << versioned.dump(2) << "\n";
}

nlohmann::ordered_json error_json(const svp::ErrorInfo& error) {
  return {{"error",
           {{"layer", svp::name(error.layer)},
            {"source", error.source},
            {"outcome", wire::name(error.outcome)},
            {"message", error.message},
            {"next_step", error.next_step},
            {"recoverable", error.recoverable}}}};
}

void print_error(const std::exception& error, bool json) {
  if (!json) {
    fmt::print(stderr, "spyre: {}\n", error.what());
    return;
  }
  if (const auto* typed = dynamic_cast<const svp::Error*>(&error)) return print_json(error_json(typed->info()));
  print_json(error_json(svp::refused_by_driver("spyre", error.what(), "spyre --help")));
}

void prepare_standard_streams() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(number, F_GETFD) != -1 || errno != EBADF) continue;
    // open() takes the lowest number that is free. The direction is the wrong one: using it is an error.
    [[maybe_unused]] const int opened = ::open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  struct sigaction now{};
  if (::sigaction(SIGXFSZ, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  now.sa_handler = [](int) {};  // not SIG_IGN: a program that is executed gets the default back
  now.sa_flags = SA_RESTART;
  (void)::sigaction(SIGXFSZ, &now, nullptr);
}

std::string output_failure() {
  std::cout.flush();
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return {};
  // An earlier write may have failed whose reason is not known any more; another one mostly says the same.
  int why = errno;
  if (why == 0 && ::write(STDOUT_FILENO, "\n", 1) < 0) why = errno;
  return why == 0 ? "a write failed" : std::strerror(why);
}

void flush_output() {
  const std::string failure = output_failure();
  if (!failure.empty()) throw output_error(failure);
}

void forget_output_failure() {
  if (std::fflush(stdout) == 0) return;
  ::__fpurge(stdout);
  std::clearerr(stdout);
}

int with_output_written(int code, int failed) {
  const std::string failure = output_failure();
  if (failure.empty()) return code;
  print_error(output_error(failure), false);
  return code == kOk ? failed : code;
}

bool asks_for_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") return false;
    if (word == "--json") return true;
  }
  return false;
}

}  // namespace cli
