// SPDX-License-Identifier: Apache-2.0
#include "host_driver/trace/perfetto.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <set>
#include <tuple>
#include <utility>

#include "host_driver/trace/clock_fit.hpp"
#include "shared/array.hpp"
#include "shared/control_block.hpp"
#include "shared/outcome.hpp"

namespace svp::trace {

namespace {

constexpr int kSchemaVersion = 1;
// Of one call, to which arrows lead: a damaged entry may name any number.
constexpr std::uint64_t kMostLaunches = std::uint64_t{1} << 16;

// Processes of the page that are functions of cards: above every pid of Linux.
constexpr std::uint32_t kFirstCard = 1u << 30;
// Their tracks.
constexpr std::uint32_t kFirstCore = 100;
constexpr std::uint32_t kFirstStream = 1000;
constexpr std::uint32_t kFirstEngine = 2;  // lanes: transfers of several streams overlap

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// Where something is drawn.
struct Track {
  std::uint32_t process;
  std::uint32_t thread;
  friend auto operator<=>(const Track&, const Track&) = default;
};

class Page {
 public:
  Page(std::ostream& out, std::uint64_t zero) : out_(out), zero_(static_cast<double>(zero)) {
    out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  }

  // `at`, `end`: nanoseconds of the host. `extra`: members of the event, each with a comma in front.
  void interval(Track track, double at, double end, const std::string& name, const std::string& arguments) {
    line(fmt::format(R"("ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{},"args":{{{}}})", track.process,
                     track.thread, us(at), std::max(0.0, end - at) / 1e3, quoted(name), arguments));
    ++events;
  }
  void instant(Track track, double at, const std::string& name, const std::string& arguments = {}) {
    line(fmt::format(R"("ph":"i","s":"t","pid":{},"tid":{},"ts":{:.3f},"name":{},"args":{{{}}})", track.process,
                     track.thread, us(at), quoted(name), arguments));
    ++events;
  }
  // Such intervals may overlap on their track.
  void waiting(Track track, double at, double end, const char* name, std::uint64_t id) {
    const double last = std::max(at, end);
    line(fmt::format(R"("ph":"b","cat":"queue","id":{},"pid":{},"tid":{},"ts":{:.3f},"name":"{}")", id, track.process,
                     track.thread, us(at), name));
    line(fmt::format(R"("ph":"e","cat":"queue","id":{},"pid":{},"tid":{},"ts":{:.3f},"name":"{}")", id, track.process,
                     track.thread, us(last), name));
  }
  // `phase`: s (begins), t (goes on), f (ends), each inside an interval of its track.
  void arrow(char phase, Track track, double at, std::uint64_t id) {
    line(fmt::format(R"("ph":"{}"{},"cat":"launch","id":{},"pid":{},"tid":{},"ts":{:.3f},"name":"launch")", phase,
                     phase == 'f' ? R"(,"bp":"e")" : "", id, track.process, track.thread, us(at)));
  }
  void process_name(std::uint32_t process, const std::string& name) {
    line(fmt::format(R"("ph":"M","pid":{},"name":"process_name","args":{{"name":{}}})", process, quoted(name)));
  }
  // Tracks stand in the order of their numbers.
  void track_name(Track track, const std::string& name) {
    if (!named_.insert(track).second) return;
    line(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}})", track.process,
                     track.thread, quoted(name)));
    line(fmt::format(R"("ph":"M","pid":{},"tid":{},"name":"thread_sort_index","args":{{"sort_index":{}}})",
                     track.process, track.thread, track.thread));
  }
  void end(const std::string& other) { out_ << "\n],\"otherData\":{" << other << "}}\n"; }

  std::uint64_t events = 0;

 private:
  double us(double at) const { return std::max(0.0, at - zero_) / 1e3; }
  void line(const std::string& members) {
    out_ << (first_ ? "{" : ",\n{") << members << '}';
    first_ = false;
  }

  std::ostream& out_;
  const double zero_;
  bool first_ = true;
  std::set<Track> named_;
};

// A function of a card, as one process saw it.
struct CardView {
  std::uint32_t number = 0;  // of its process on the page
  std::string name;
  std::vector<ClockSample> samples;
  std::optional<ClockFit> clock;
  std::vector<double> engine_free;  // until when each lane of the DMA engine is in use
  // CardQueued, by stream and sequence: device times in their order.
  std::map<std::pair<std::uint32_t, std::uint64_t>, std::vector<std::uint64_t>> queued;
};

using LaunchKey = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;  // card, stream, launch

class Drawing {
 public:
  Drawing(Page& page, Drawn& drawn, const ProcessTrace& trace, std::uint32_t& next_card, std::uint64_t& next_id)
      : page_(page), drawn_(drawn), trace_(trace), next_id_(next_id) {
    collect(next_card);
    page_.process_name(trace.process, fmt::format("{} ({})", trace.program, trace.process));
    for (auto& [number, card] : cards_) {
      card.clock.emplace(card.samples);
      page_.process_name(card.number, fmt::format("{} of {} ({})", card.name, trace.program, trace.process));
      drawn_.clock_error_us = std::max(drawn_.clock_error_us, card.clock->error() / 1e3);
      drawn_.clock_segments += card.clock->segments();
    }
    for (const Entry& entry : trace.entries) draw(entry);
  }

 private:
  void collect(std::uint32_t& next_card) {
    for (const Entry& entry : trace_.entries) {
      if (entry.card == 0) continue;
      CardView& card = cards_[entry.card];
      if (card.number == 0) {
        card.number = next_card++;
        card.name = fmt::format("card {}", entry.card);
      }
      if (entry.kind == Kind::Card) card.name = entry.text;
      if (entry.kind == Kind::CardQueued) card.queued[{entry.stream, entry.sequence}].push_back(entry.device_begin);
      if (entry.kind != Kind::Block) continue;
      last_block_[key_of(entry)] = &entry;
      if (entry.device_begin != 0)
        card.samples.push_back({entry.begin, entry.device_begin, entry.device_end, entry.end});
    }
  }

  static LaunchKey key_of(const Entry& entry) { return {entry.card, entry.stream, entry.launch}; }
  Track host_track(const Entry& entry) {
    const Track track{trace_.process, entry.thread};
    page_.track_name(track, fmt::format("thread {}", entry.thread));
    return track;
  }
  Track card_track(const CardView& card, std::uint32_t number, const std::string& name) {
    const Track track{card.number, number};
    page_.track_name(track, name);
    return track;
  }

  // An entry of a card that names none is damaged.
  static bool is_of_card(Kind kind) {
    return kind == Kind::Block || kind == Kind::CardSlice || kind == Kind::CardMark || kind == Kind::CardAhead ||
           kind == Kind::CardArray;
  }

  void draw(const Entry& entry) {
    if (is_of_card(entry.kind) && entry.card == 0) {
      ++drawn_.unplaced;
      return;
    }
    switch (entry.kind) {
      case Kind::None:
      case Kind::Card: return;
      case Kind::Launch: return draw_launch(entry);
      case Kind::HostOperation:
      case Kind::HostFunction:
      case Kind::Staging:
      case Kind::Wait:
      case Kind::Reset: return draw_host(entry);
      case Kind::DoorbellToCard:
      case Kind::DoorbellFromCard:
        return page_.instant(host_track(entry), static_cast<double>(entry.begin), std::string(name(entry.kind)));
      case Kind::Block: return draw_block(entry);
      case Kind::CardSlice: return draw_on_core(entry, fmt::format("stream {}", entry.stream));
      case Kind::CardAhead: return draw_on_core(entry, fmt::format("DMA of stream {}, moved ahead", entry.stream));
      case Kind::CardMark: drawn_.marks += draw_instant(entry, fmt::format("mark {}", entry.bytes)) ? 1 : 0; return;
      case Kind::CardArray: {
        const auto kind = static_cast<wire::array::Kind>(entry.bytes);
        drawn_.array_requests += draw_instant(entry, fmt::format("array: {}", wire::array::name(kind))) ? 1 : 0;
        return;
      }
      case Kind::CardQueued: return;  // with its block
      case Kind::CardLost: drawn_.lost += entry.bytes; return;
    }
  }

  static std::string with_text(std::string_view what, const Entry& entry) {
    return entry.text.empty() ? std::string(what) : fmt::format("{} {}", what, entry.text);
  }

  void draw_host(const Entry& entry) {
    std::string arguments;
    if (entry.stream != kNoStream) arguments += fmt::format(R"("stream":{},"launch":{})", entry.stream, entry.launch);
    if (entry.bytes != 0) arguments += fmt::format(R"({}"bytes":{})", arguments.empty() ? "" : ",", entry.bytes);
    page_.interval(host_track(entry), static_cast<double>(entry.begin), static_cast<double>(entry.end),
                   with_text(name(entry.kind), entry), arguments);
  }

  // One call may have enqueued several: `tile` is their number.
  void draw_launch(const Entry& entry) {
    const Track track = host_track(entry);
    page_.interval(track, static_cast<double>(entry.begin), static_cast<double>(entry.end), with_text("launch", entry),
                   fmt::format(R"("stream":{},"launch":{},"count":{})", entry.stream, entry.launch, entry.tile));
    const std::uint64_t count = std::min({std::uint64_t{entry.tile}, entry.launch, kMostLaunches});
    for (std::uint64_t launch = entry.launch - count + 1; launch <= entry.launch; ++launch) {
      ++drawn_.launches;
      const LaunchKey key{entry.card, entry.stream, launch};
      if (!last_block_.contains(key)) continue;  // nothing of it ran, or it is not in the trace
      page_.arrow('s', track, static_cast<double>(entry.begin), arrow_of(key));
    }
  }

  std::uint64_t arrow_of(const LaunchKey& key) {
    const auto [at, is_new] = arrows_.try_emplace(key, next_id_);
    if (is_new) ++next_id_;
    return at->second;
  }

  void draw_block(const Entry& entry) {
    CardView& card = cards_[entry.card];
    ++drawn_.blocks;
    const auto opcode = static_cast<wire::Opcode>(entry.opcode);
    const auto outcome = static_cast<wire::Outcome>(entry.outcome);
    const std::string what = with_text(wire::name(opcode), entry);
    const Track track = card_track(card, kFirstStream + entry.stream, fmt::format("stream {}", entry.stream));
    const std::string arguments =
        fmt::format(R"("launch":{},"tile":{},"step":{},"sequence":{},"bytes":{},"outcome":"{}","status":"{}")",
                    entry.launch, entry.tile, entry.step, entry.sequence, entry.bytes, wire::name(outcome),
                    wire::name(static_cast<wire::Status>(entry.status)));
    const auto start = card.clock->host_time(entry.device_begin, entry.end);
    const auto end = card.clock->host_time(entry.device_end, entry.end);
    if (entry.device_begin == 0 || !start || !end) {
      // It never ran.
      return page_.instant(track, static_cast<double>(entry.end), fmt::format("{}: {}", what, wire::name(outcome)),
                           arguments);
    }
    page_.interval(track, *start, *end, what, arguments);
    draw_queue(card, entry, track, *start);
    const LaunchKey key = key_of(entry);
    page_.arrow(last_block_[key] == &entry ? 'f' : 't', track, *start, arrow_of(key));
    if (opcode == wire::Opcode::Dma || opcode == wire::Opcode::Fill) {
      page_.interval(engine_track(card, *start, *end), *start, *end, what, arguments);
    }
  }

  // From the call that sent it to its start; split where the card took it from the ring, if it told.
  void draw_queue(CardView& card, const Entry& entry, Track track, double start) {
    const auto sent = static_cast<double>(entry.begin);
    const std::uint64_t id = next_id_++;
    const auto found = card.queued.find({entry.stream, entry.sequence});
    if (found != card.queued.end()) {
      // Sequences begin again with each incarnation: the last one before the start.
      const auto behind = std::ranges::upper_bound(found->second, entry.device_begin);
      if (behind != found->second.begin()) {
        const double taken = *card.clock->host_time(*(behind - 1), entry.end);
        page_.waiting(track, sent, taken, "in the ring", id);
        return page_.waiting(track, std::max(sent, taken), start, "queued on the card", next_id_++);
      }
    }
    page_.waiting(track, sent, start, "sent", id);
  }

  Track engine_track(CardView& card, double start, double end) {
    std::size_t lane = 0;
    while (lane < card.engine_free.size() && card.engine_free[lane] > start) ++lane;
    if (lane == card.engine_free.size()) card.engine_free.push_back(0);
    card.engine_free[lane] = end;
    return card_track(card, kFirstEngine + static_cast<std::uint32_t>(lane),
                      lane == 0 ? "DMA engine" : fmt::format("DMA engine, transfer {} at a time", lane + 1));
  }

  void draw_on_core(const Entry& entry, const std::string& what) {
    CardView& card = cards_[entry.card];
    const auto start = card.clock->host_time(entry.device_begin, entry.end);
    const auto end = card.clock->host_time(entry.device_end, entry.end);
    if (!start || !end) {
      ++drawn_.unplaced;
      return;
    }
    if (entry.kind == Kind::CardSlice) ++drawn_.slices;
    page_.interval(core_track(card, entry), *start, *end, what,
                   fmt::format(R"("stream":{},"sequence":{})", entry.stream, entry.sequence));
  }

  // On a core. False: its place in time is not known.
  bool draw_instant(const Entry& entry, const std::string& what) {
    CardView& card = cards_[entry.card];
    const auto at = card.clock->host_time(entry.device_begin, entry.end);
    if (!at) {
      ++drawn_.unplaced;
      return false;
    }
    page_.instant(core_track(card, entry), *at, what,
                  fmt::format(R"("stream":{},"sequence":{},"value":{})", entry.stream, entry.sequence, entry.bytes));
    return true;
  }

  Track core_track(const CardView& card, const Entry& entry) {
    return card_track(card, kFirstCore + entry.core, fmt::format("core {}", entry.core));
  }

  Page& page_;
  Drawn& drawn_;
  const ProcessTrace& trace_;
  std::uint64_t& next_id_;
  std::map<std::uint32_t, CardView> cards_;
  std::map<LaunchKey, const Entry*> last_block_;
  std::map<LaunchKey, std::uint64_t> arrows_;
};

std::uint64_t first_time(std::span<const ProcessTrace> traces) {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (const ProcessTrace& trace : traces) {
    for (const Entry& entry : trace.entries) first = std::min(first, entry.begin);
  }
  return first == std::numeric_limits<std::uint64_t>::max() ? 0 : first;
}

}  // namespace

Drawn write_perfetto(std::ostream& out, std::span<const ProcessTrace> traces) {
  Drawn drawn;
  Page page(out, first_time(traces));
  std::uint32_t next_card = kFirstCard;
  std::uint64_t next_id = 1;
  for (const ProcessTrace& trace : traces) {
    drawn.lost += trace.lost;
    drawn.unwritten += trace.unwritten;
    drawn.damaged += trace.damaged;
    const Drawing drawing(page, drawn, trace, next_card, next_id);
  }
  drawn.events = page.events;
  page.end(fmt::format(
      R"("schema_version":{},"lost":{},"unwritten":{},"damaged":{},"unplaced":{},"clock_error_us":{:.3f},"clock_segments":{})",
      kSchemaVersion, drawn.lost, drawn.unwritten, drawn.damaged, drawn.unplaced, drawn.clock_error_us,
      drawn.clock_segments));
  return drawn;
}

}  // namespace svp::trace
