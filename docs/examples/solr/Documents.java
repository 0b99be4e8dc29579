import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.HashSet;
import java.util.Random;
import java.util.Set;

/**
 * What a shop of many tenants might have: documents whose words follow Zipf's law,
 * of tenants of very unequal size, and questions about them that have answers. The
 * same numbers always make the same files, wherever they are made: java.util.Random
 * is specified to the bit.
 *
 *   java Documents.java DOCUMENTS QUESTIONS DIRECTORY
 *
 * writes documents.jsonl and questions.csv.
 */
public final class Documents {
  static final int WORDS = 40_000, TENANTS = 200, CATEGORIES = 40, MAKERS = 5_000;
  static final long FIRST = Instant.parse("2024-01-01T00:00:00Z").getEpochSecond();
  static final long SPAN = 2 * 365 * 86_400L;

  public static void main(String[] args) throws IOException {
    int documents = Integer.parseInt(args[0]), questions = Integer.parseInt(args[1]);
    Path dir = Path.of(args[2]);
    Files.createDirectories(dir);

    Random random = new Random(7);
    String[] words = words(random);
    double[] byRank = shares(WORDS, 1.0), byTenant = shares(TENANTS, 1.3), byMaker = shares(MAKERS, 0.8);
    // Words of documents, and pairs of neighbours, so that questions have answers.
    String[] seen = new String[questions], first = new String[questions], second = new String[questions];

    Path file = dir.resolve("documents.jsonl");
    try (PrintWriter out = writer(file)) {
      for (int i = 0; i < documents; i++) {
        String[] body = new String[20 + random.nextInt(60)];
        for (int k = 0; k < body.length; k++) {
          body[k] = words[draw(random, byRank)];
        }
        int pair = random.nextInt(body.length - 1);
        seen[i % questions] = body[random.nextInt(body.length)];
        first[i % questions] = body[pair];
        second[i % questions] = body[pair + 1];
        // Prices are log-normal, most things are cheap.
        double price = Math.round(100 * StrictMath.exp(3 + 1.2 * random.nextGaussian())) / 100.0;
        out.printf("{\"id\":\"%d\",\"tenant\":\"t%d\",\"category\":\"c%d\",\"maker\":\"m%d\",\"title\":\"%s %s %s\",\"price\":%s,\"stock\":%d,\"added\":\"%s\",\"body\":\"%s\"}%n",
            i, draw(random, byTenant), random.nextInt(CATEGORIES), draw(random, byMaker),
            words[draw(random, byRank)], words[draw(random, byRank)], words[draw(random, byRank)],
            Double.toString(price), random.nextInt(1000),
            Instant.ofEpochSecond(FIRST + (long) (random.nextDouble() * SPAN)), String.join(" ", body));
      }
    }

    try (PrintWriter out = writer(dir.resolve("questions.csv"))) {
      out.println("tenant,word,other,first,second,prefix,low,high,since,page");
      for (int i = 0; i < questions; i++) {
        int of = i % Math.min(questions, documents);
        String other = words[5 + random.nextInt(2_000)];
        int low = 5 + random.nextInt(40);
        out.printf("t%d,%s,%s,%s,%s,%s,%d,%d,%s,%d%n", draw(random, byTenant), seen[of], other, first[of], second[of],
            seen[random.nextInt(Math.min(questions, documents))].substring(0, 3), low, low + 5 + random.nextInt(60),
            Instant.ofEpochSecond(FIRST + (long) (random.nextDouble() * SPAN)), 2_000 + 10 * random.nextInt(100));
      }
    }
  }

  private static PrintWriter writer(Path p) throws IOException {
    return new PrintWriter(Files.newBufferedWriter(p, StandardCharsets.UTF_8));
  }

  /** Words of 4 to 12 letters that one can say, each once. */
  private static String[] words(Random random) {
    String consonants = "bcdfghjklmnprstvwz", vowels = "aeiouy";
    Set<String> seen = new HashSet<>();
    String[] words = new String[WORDS];
    for (int i = 0; i < WORDS;) {
      StringBuilder b = new StringBuilder();
      for (int k = 2 + random.nextInt(5); k > 0; k--) {
        b.append(consonants.charAt(random.nextInt(consonants.length()))).append(vowels.charAt(random.nextInt(vowels.length())));
      }
      if (seen.add(b.toString())) {
        words[i++] = b.toString();
      }
    }
    return words;
  }

  /** Cumulated shares of n ranks, the r-th in proportion to 1 / r^s. */
  private static double[] shares(int n, double s) {
    double[] c = new double[n];
    double sum = 0;
    for (int r = 0; r < n; r++) {
      c[r] = sum += 1 / StrictMath.pow(r + 1, s);
    }
    for (int r = 0; r < n; r++) {
      c[r] /= sum;
    }
    return c;
  }

  private static int draw(Random random, double[] cumulated) {
    int i = java.util.Arrays.binarySearch(cumulated, random.nextDouble());
    return Math.min(i < 0 ? -i - 1 : i, cumulated.length - 1);
  }
}
