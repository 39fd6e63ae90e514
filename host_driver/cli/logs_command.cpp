// SPDX-License-Identifier: Apache-2.0
// `spyre logs`: what a card's broker says, or what its firmware wrote.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "host_driver/base/unique_fd.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/signals.hpp"
#include "host_driver/cli/timeouts.hpp"
#include "host_driver/discovery/runtime_folder.hpp"

namespace cli {

namespace {

svp::UniqueFd open_log(const std::filesystem::path& path, const std::string& card) {
  svp::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.valid()) return file;
  throw svp::Error(svp::refused_by_driver(card, "there is no " + path.string(),
                                          "spyre devices shows the running cards; cards of spyre exec keep no log"));
}

// Everything that can be read now; at the first call cut to the last `lines`.
std::string read_more(int file) {
  std::string text;
  std::array<char, 16 * 1024> piece;
  for (;;) {  // bounded: a file, read to its end
    // bounded: a file, or a watch that does not block
    const ssize_t got = ::read(file, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

std::string_view last_lines(std::string_view text, std::size_t lines) {
  if (lines == 0 || text.empty()) return text;
  std::size_t at = text.size() - (text.back() == '\n' ? 1 : 0);
  for (; lines != 0; --lines) {
    at = text.rfind('\n', at == 0 ? 0 : at - 1);
    if (at == std::string_view::npos) return text;
  }
  return text.substr(at + 1);
}

void follow(int file, const std::filesystem::path& path, const SignalDescriptor& signals) {
  const svp::UniqueFd watch(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ::inotify_add_watch(watch.get(), path.c_str(), IN_MODIFY | IN_DELETE_SELF | IN_ATTRIB);
  std::array<pollfd, 2> events = {pollfd{watch.get(), POLLIN, 0}, pollfd{signals.descriptor(), POLLIN, 0}};
  while (::access(path.c_str(), F_OK) == 0) {
    // At most kLogLook; the loop ends with the card, or a signal
    ::poll(events.data(), events.size(), static_cast<int>(kLogLook.count()));
    if (events[1].revents != 0) return;
    (void)read_more(watch.get());
    fmt::print("{}", read_more(file));
    flush_output();
  }
  fmt::print("{}", read_more(file));
}

}  // namespace

int logs(const LogsOptions& options) {
  const auto folder = svp::value_or_throw(svp::card_path(options.card));
  const auto path = folder / (options.console ? svp::kConsoleName : svp::kCardLogName);
  const svp::UniqueFd file = open_log(path, options.card);
  const std::string text = read_more(file.get());
  fmt::print("{}", last_lines(text, options.lines));
  flush_output();
  if (options.follow) follow(file.get(), path, SignalDescriptor({SIGINT, SIGTERM}));
  return kOk;
}

}  // namespace cli
