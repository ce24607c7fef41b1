// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <heddle/detail/file.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// A named number shown with an event, such as bytes or a stage. The name must be a string literal: only its address is
/// kept.
struct trace_argument {
  char const* name = nullptr;
  std::int64_t value = 0;
};

/// Something a rank did: "forward 3" is the name "forward" and the number 3. The name must be a string literal.
struct trace_event {
  static constexpr std::int64_t no_number = INT64_MIN;

  char const* name = "";
  std::int64_t number = no_number;
  std::int64_t begin = 0;  ///< nanoseconds, as trace_recorder::now
  std::int64_t end = 0;
  trace_argument arguments[2];
};

/// One rank's events. The memory is taken and touched when it is made, so recording neither allocates nor locks; once
/// it is full, events are counted instead, and the written trace says how many. One thread records.
class trace_recorder {
 public:
  explicit trace_recorder(std::size_t capacity) : events_(capacity) {}

  /// Nanoseconds of a clock that all ranks of a host share and that never goes back.
  static std::int64_t now() noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  void record(trace_event const& event) noexcept {
    if (size_ < events_.size())
      events_[size_++] = event;
    else
      ++left_out_;
  }

  std::span<trace_event const> events() const noexcept { return {events_.data(), size_}; }
  std::size_t left_out() const noexcept { return left_out_; }
  void clear() noexcept { size_ = left_out_ = 0; }

 private:
  std::vector<trace_event> events_;
  std::size_t size_ = 0;
  std::size_t left_out_ = 0;
};

/// Records the time from its making to its end as one event; does nothing, at the cost of a branch, without a recorder.
class trace_span {
 public:
  explicit trace_span(trace_recorder* recorder, char const* name, std::int64_t number = trace_event::no_number,
                      trace_argument first = {}, trace_argument second = {}) noexcept
      : recorder_(recorder) {
    if (recorder_ != nullptr) event_ = {name, number, trace_recorder::now(), 0, {first, second}};
  }
  trace_span(trace_span const&) = delete;
  trace_span& operator=(trace_span const&) = delete;
  ~trace_span() {
    if (recorder_ == nullptr) return;
    event_.end = trace_recorder::now();
    recorder_->record(event_);
  }

 private:
  trace_recorder* recorder_;
  trace_event event_{};
};

/// A part of a step: an event of the rank's trace, if it has a recorder, and a range of that name for the profiler of
/// the memory where it computes (`host_memory::profiled_range`), whether it has or not.
template <class Memory>
class step_span {
 public:
  explicit step_span(trace_recorder* recorder, char const* name, std::int64_t number = trace_event::no_number)
      : range_(name, number == trace_event::no_number ? std::nullopt : std::optional(number)),
        span_(recorder, name, number) {}

 private:
  [[no_unique_address]] typename Memory::profiled_range range_;
  trace_span span_;
};

/// A recorder with its place in the picture: one process has one row of tracks, one rank one track.
struct traced_rank {
  trace_recorder const* recorder = nullptr;
  std::int64_t rank = 0;
  std::int64_t process = 0;
  std::string name{};  ///< of the track, such as "dp 0, pp 1, tp 0"; "rank N" where empty
};

namespace detail {

/// A JSON string with its quotes.
inline void append_json_string(std::string& out, std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    auto const byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

/// Nanoseconds as the microseconds of the format, exact.
inline void append_microseconds(std::string& out, std::int64_t nanoseconds) {
  std::string const fraction = std::to_string(nanoseconds % 1000);
  out += std::to_string(nanoseconds / 1000) + "." + std::string(3 - fraction.size(), '0') + fraction;
}

inline void append_trace_metadata(std::string& out, char const* what, traced_rank const& rank, std::string_view name) {
  out += R"({"ph":"M","name":")" + std::string(what) + R"(","pid":)" + std::to_string(rank.process) + R"(,"tid":)" +
         std::to_string(rank.rank) + R"(,"args":{"name":)";
  append_json_string(out, name);
  out += "}},\n";
}

inline void append_trace_event(std::string& out, traced_rank const& rank, trace_event const& event,
                               std::int64_t origin) {
  std::string name = event.name;
  if (event.number != trace_event::no_number) name += " " + std::to_string(event.number);
  out += R"({"ph":"X","name":)";
  append_json_string(out, name);
  out += R"(,"pid":)" + std::to_string(rank.process) + R"(,"tid":)" + std::to_string(rank.rank) + R"(,"ts":)";
  append_microseconds(out, event.begin - origin);
  out += R"(,"dur":)";
  append_microseconds(out, event.end > event.begin ? event.end - event.begin : 0);
  char const* separator = R"(,"args":{)";
  bool any = false;
  for (auto const& argument : event.arguments) {
    if (argument.name == nullptr) continue;
    out += separator;
    append_json_string(out, argument.name);
    out += ":" + std::to_string(argument.value);
    separator = ",";
    any = true;
  }
  out += any ? "}},\n" : "},\n";
}

}  // namespace detail

/// Writes the ranks' events as trace-event JSON, which Perfetto and chrome://tracing show: complete events, pid the
/// process, tid the rank, times from the first event. The file appears at once. Call it when no rank records.
inline void write_trace(std::string const& path, std::span<traced_rank const> ranks) {
  std::int64_t origin = INT64_MAX;
  std::size_t left_out = 0;
  for (auto const& rank : ranks) {
    left_out += rank.recorder->left_out();
    for (auto const& event : rank.recorder->events())
      if (event.begin < origin) origin = event.begin;
  }
  detail::atomic_file out(path);
  std::string text = "{\"traceEvents\":[\n";
  for (auto const& rank : ranks) {
    detail::append_trace_metadata(text, "process_name", rank, "process " + std::to_string(rank.process));
    detail::append_trace_metadata(text, "thread_name", rank,
                                  rank.name.empty() ? "rank " + std::to_string(rank.rank) : rank.name);
    for (auto const& event : rank.recorder->events()) {
      detail::append_trace_event(text, rank, event, origin);
      if (text.size() > 1u << 16) {
        out.write(text);
        text.clear();
      }
    }
  }
  // Each item ended in a comma: this one, which every viewer passes over, has none after it.
  text += R"({"ph":"M","name":"heddle","pid":0,"args":{"events_left_out":)" + std::to_string(left_out) + "}}\n]}\n";
  out.write(text);
  out.commit();
}

}  // namespace heddle
