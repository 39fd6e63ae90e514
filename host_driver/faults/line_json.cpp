// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/line_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace svp::fault {

namespace {

using Json = nlohmann::json;

// Shared by the copies that the parser makes of its input iterator.
struct Place {
  std::size_t line = 1;
  char last = 0;  // character that was read
};

// Counts lines while the parser reads.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Place* place) : at_(at), place_(place) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    place_->last = *at_;
    if (*at_ == '\n') ++place_->line;
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  Place* place_;
};

class Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(const Place& place) : place_(place) {}
  LineValue take() { return std::move(root_); }

  bool null() override { return put({.kind = LineValue::Kind::Null}); }
  bool boolean(bool value) override { return put({.kind = LineValue::Kind::Boolean, .boolean = value}); }
  bool number_integer(number_integer_t) override { return put_number({.kind = LineValue::Kind::Other}); }
  bool number_unsigned(number_unsigned_t value) override {
    return put_number({.kind = LineValue::Kind::Number, .number = value});
  }
  bool number_float(number_float_t, const string_t&) override { return put_number({.kind = LineValue::Kind::Other}); }
  bool string(string_t& value) override { return put({.kind = LineValue::Kind::Text, .text = std::move(value)}); }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return open({.kind = LineValue::Kind::Object}); }
  bool start_array(std::size_t) override { return open({.kind = LineValue::Kind::List}); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    auto& members = open_.back()->members;
    if (std::ranges::any_of(members, [&](const auto& m) { return m.key == key; })) {
      throw LineError{place_.line, "\"" + key + "\" stands here a second time"};
    }
    members.push_back({.key = std::move(key), .key_line = place_.line});
    return true;
  }
  bool parse_error(std::size_t, const std::string& token, const nlohmann::detail::exception&) override {
    std::string seen;
    for (const char c : token.substr(0, 40)) seen.push_back(c >= ' ' && c <= '~' ? c : '?');
    throw LineError{before_lookahead(), "this is not JSON" + (seen.empty() ? std::string() : " (at \"" + seen + "\")")};
  }

 private:
  // The parser reads one character beyond a number; a line's end is part of the line that it ends.
  std::size_t before_lookahead() const { return place_.line - (place_.last == '\n' ? 1 : 0); }
  bool put_number(LineValue value) {
    value.line = before_lookahead();
    return place_value(std::move(value)) != nullptr;
  }
  bool put(LineValue value) {
    value.line = place_.line;
    return place_value(std::move(value)) != nullptr;
  }
  LineValue* place_value(LineValue value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    LineValue& parent = *open_.back();
    if (parent.kind == LineValue::Kind::Object) {
      LineValue& member = parent.members.back();
      value.key = std::move(member.key);
      value.key_line = member.key_line;
      member = std::move(value);
      return &member;
    }
    parent.items.push_back(std::move(value));
    return &parent.items.back();
  }
  bool open(LineValue value) {
    if (open_.size() >= kMaxLineJsonDepth) throw LineError{place_.line, "this is nested too deep"};
    value.line = place_.line;
    open_.push_back(place_value(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const Place& place_;
  LineValue root_;
  std::vector<LineValue*> open_;  // a container grows only while it is the last of these, so they stay where they are
};

}  // namespace

const LineValue* LineValue::member(std::string_view wanted) const {
  const auto found = std::ranges::find(members, wanted, &LineValue::key);
  return found == members.end() ? nullptr : &*found;
}

LineValue parse_with_lines(std::string_view text) {
  if (text.size() > kMaxLineJsonBytes) {
    throw LineError{1, "this is longer than " + std::to_string(kMaxLineJsonBytes) + " bytes"};
  }
  Place place;
  Builder builder(place);
  const CountingIterator begin(text.data(), &place);
  const CountingIterator end(text.data() + text.size(), &place);
  if (!Json::sax_parse(begin, end, &builder)) throw LineError{place.line, "this is not JSON"};
  return builder.take();
}

}  // namespace svp::fault
