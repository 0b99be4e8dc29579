import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.CountDownLatch;

import org.apache.solr.client.solrj.request.CollectionAdminRequest;
import org.apache.solr.cloud.MiniSolrCloudCluster;
import org.apache.solr.embedded.JettyConfig;

/**
 * A SolrCloud on this machine: ZooKeeper and as many nodes as asked for, in one
 * process, on ports that follow each other. It makes an empty collection docsN of
 * N shards for each N, and one called ready when all are there; writes the first
 * node's address; serves until it is asked to end, and then removes its files.
 *
 *   java -cp CLASSPATH Cluster.java NODES PORT DIRECTORY CONFIG N...
 */
public final class Cluster {
  public static void main(String[] args) throws Exception {
    int nodes = Integer.parseInt(args[0]);
    int port = Integer.parseInt(args[1]);
    Path home = Path.of(args[2]).resolve("cluster");
    Path config = Path.of(args[3]);

    remove(home); // of a cluster that was killed
    Files.createDirectories(home);
    CountDownLatch asked = new CountDownLatch(1), gone = new CountDownLatch(1);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> {
      asked.countDown();
      try {
        gone.await();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }));

    MiniSolrCloudCluster cluster = null;
    try {
      cluster = new MiniSolrCloudCluster(1, home, at(port));
      for (int i = 2; i <= nodes; i++) {
        cluster.startJettySolrRunner("node" + i, null, at(port + i - 1));
      }
      cluster.waitForAllNodes(60);
      cluster.uploadConfigSet(config, "shop");
      for (int i = 4; i < args.length; i++) {
        int shards = Integer.parseInt(args[i]);
        create(cluster, "docs" + shards, shards);
      }
      create(cluster, "ready", 1);
      System.out.println("ready http://127.0.0.1:" + port + "/solr");
      asked.await();
    } finally {
      try {
        if (cluster != null) {
          cluster.shutdown();
        }
        remove(home);
      } catch (Exception e) {
        System.err.println("shut down: " + e);
      } finally {
        gone.countDown();
      }
    }
    Runtime.getRuntime().halt(0); // whatever threads Solr has left
  }

  private static JettyConfig at(int port) {
    return JettyConfig.builder().setPort(port).build();
  }

  private static void create(MiniSolrCloudCluster cluster, String name, int shards) throws Exception {
    CollectionAdminRequest.createCollection(name, "shop", shards, 1).process(cluster.getSolrClient());
    cluster.waitForActiveCollection(name, shards, shards);
  }

  private static void remove(Path tree) throws Exception {
    if (!Files.exists(tree)) {
      return;
    }
    try (var paths = Files.walk(tree)) {
      for (Path p : paths.sorted(Comparator.reverseOrder()).toList()) {
        Files.deleteIfExists(p);
      }
    }
  }
}
