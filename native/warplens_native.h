/* The library's C interface; src/warplens/readers/kineto/native.py, passes/nest.py, passes/climb.py,
 * analyses/graph/simulating.py and analyses/work/sequence_search.py call it.
 *
 * A reader takes the text of a trace-event array in chunks and gives back columns. It never reports an error: what it
 * does not take as it is belongs to the reference reader, which has words for it.
 */
#ifndef WARPLENS_NATIVE_H
#define WARPLENS_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define WL_API __declspec(dllexport)
#else
#define WL_API __attribute__((visibility("default")))
#endif

#define WL_VERSION 7

typedef struct wl_reader wl_reader;

/* What becomes of a category's events: the kind's code and a bit for each part that is kept (see wl_parts). */
typedef struct {
    const char* name;
    uint8_t kind;
    uint16_t parts;
} wl_category;

typedef enum { WL_READING = 0, WL_CLOSED = 1, WL_HANDED_OVER = 2 } wl_state;

/* An array of the result. Strings are two: their bytes, and where each begins, with the end of the last. */
typedef struct {
    const char* name;
    const char* type; /* as numpy spells it: u1, i4, i8, u8 */
    const void* data;
    uint64_t bytes;
} wl_array;

WL_API int wl_version(void);
/* The bits of wl_category.parts in their order, and the known keys with their types; a word a line. */
WL_API const char* wl_parts(void);
WL_API const char* wl_fields(void);

/* The last category is the rule for all that are not listed. NULL where memory is short. */
WL_API wl_reader* wl_new(const wl_category* categories, size_t count, const char* own_prefix, uint64_t piece_bytes,
                         uint64_t seed);
WL_API void wl_free(wl_reader* reader);
WL_API wl_state wl_feed(wl_reader* reader, const void* text, size_t size);
WL_API wl_state wl_finish(wl_reader* reader);

/* The array of this number; 0 where there is none. Valid until the reader is freed. */
WL_API int wl_get(const wl_reader* reader, size_t number, wl_array* array);
/* Why the file is handed over, and at which byte behind the array's bracket. */
WL_API const char* wl_why(const wl_reader* reader, uint64_t* at);

/* Parents and depths of a thread's events, the number of those that cross another and by how much at most (see nest.h); 0
 * where they are not in order. */
WL_API int wl_nest(const int64_t* start, const int64_t* end, const uint8_t* soft, size_t count, int64_t* parent,
                   int64_t* depth, int64_t* crossings);
/* Where the walks up a forest of calls end that begin at some rows (see climb.h); 0 where it is no such forest. */
WL_API int wl_climb(const int32_t* parent, const int32_t* forward, const uint8_t* stop, size_t rows, const int64_t* from,
                    size_t count, int64_t* reached, uint8_t* crossed);
/* When every node of a graph is reached, in several variants at once (see simulate.h); 0 where it is no such graph. */
WL_API int wl_simulate(const int64_t* first_edge, const int64_t* source, size_t nodes, const double* lag,
                       const double* weight, size_t variants, double* times);
/* The size of the text without its numbers (see families.h), which is written to `out`. */
WL_API size_t wl_without_numbers(const char* text, size_t size, char* out);

/* Events that follow each other again and again (see sequences.h). NULL where memory is short, or where the codes or the
 * limits are not as described. */
typedef struct wl_sequences wl_sequences;
typedef struct {
    const int64_t* lengths;
    size_t length_count;
    size_t tried;
    size_t min_count;
    size_t max_length;
    size_t max_found;
    double same;
} wl_sequence_limits;
WL_API wl_sequences* wl_sequences_new(const int64_t* code, const int64_t* sums_ns, size_t count,
                                      const wl_sequence_limits* limits);
WL_API void wl_sequences_free(wl_sequences* sequences);
/* The array of this number, of starts, bounds, lengths and times; 0 where there is none. */
WL_API int wl_sequences_get(const wl_sequences* sequences, size_t number, wl_array* array);

#ifdef __cplusplus
}
#endif
#endif
